//! From a limit to the kernel's token bucket: the reference plugin's arithmetic, so that either
//! one's CHECK accepts what the other made, but saturating where that one wraps.

use net::Tbf;

use crate::config::Limit;

/// How long a packet may wait in the queue at the rate, in microseconds.
const LATENCY: u128 = 25_000;
const MICROSECONDS: u128 = 1_000_000;
const NANOSECONDS: u128 = 1_000_000_000;
/// The longest time in nanoseconds that the kernel takes from the ticks of a bucket (`tbf_change` of its
/// net/sched/sch_tbf.c). What takes longer to fill is told in bytes.
const LONGEST_FILL: u128 = u32::MAX as u128;
/// What the kernel counts of a frame beside its MTU, in bytes: the Ethernet header and a VLAN tag.
const FRAME_OVERHEAD: u32 = 14 + 4;

/// The bucket for a limit on a link of `mtu` bytes, with `ticks` scheduler ticks in a microsecond.
///
/// A bucket that holds less than one frame lets nothing pass, ever. The reference plugin makes it
/// nevertheless; here it is made as large as one frame.
pub fn bucket(limit: Limit, mtu: u32, ticks: f64) -> Tbf {
    let rate = u128::from(limit.rate.max(1));
    let frame = mtu.saturating_add(FRAME_OVERHEAD);
    let time = |bytes: u32| u128::from(bytes) * MICROSECONDS / rate;
    let burst = limit.burst.max(frame);
    let by_time = rate * LONGEST_FILL / NANOSECONDS >= u128::from(frame);
    Tbf {
        rate: limit.rate,
        limit: saturate(rate * LATENCY / MICROSECONDS + u128::from(burst)),
        buffer: if by_time {
            // One microsecond more than the frame's time rounded up, since ticks are rounded down.
            let fill_time = time(limit.burst).max(time(frame) + 2);
            to_ticks(saturate(fill_time), ticks)
        } else {
            told_ticks(burst, limit.rate)
        },
        burst: (!by_time).then_some(burst),
    }
}

/// What the kernel tells as the ticks of a bucket that it was given in bytes: its arithmetic, with
/// what it loses (`psched_ratecfg_precompute` of net/sched/sch_generic.c, `psched_l2t_ns` and
/// `PSCHED_SHIFT` of include/net/pkt_sched.h, `tbf_dump` of net/sched/sch_tbf.c).
fn told_ticks(bytes: u32, rate: u64) -> u32 {
    const PSCHED_SHIFT: u32 = 6;
    let rate = rate.max(1);
    let (mut factor, mut shift) = (1_000_000_000_u64, 0_u32);
    // Until the quotient, of which 32 bits are kept, has the highest of them.
    while (factor / rate) & (1 << 31) == 0 && factor >> 63 == 0 {
        factor <<= 1;
        shift += 1;
    }
    let multiplier = (factor / rate) & u64::from(u32::MAX);
    let nanoseconds = (u64::from(bytes) * multiplier) >> shift;
    let ticks = (nanoseconds >> PSCHED_SHIFT) & u64::from(u32::MAX);
    u32::try_from(ticks).unwrap_or_default()
}

fn saturate(value: u128) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from floating point cuts the fraction, as wanted, and saturates"
)]
fn to_ticks(microseconds: u32, ticks: f64) -> u32 {
    (f64::from(microseconds) * ticks) as u32
}

#[cfg(test)]
mod tests {
    use net::{Netlink, Netns};

    use super::*;
    use crate::config::MAX_RATE;

    const TICKS: f64 = 15.625;

    fn bucket_of(rate: u64, burst: u32) -> Tbf {
        bucket(Limit { rate, burst }, 1500, TICKS)
    }

    /// What `tc -d qdisc` prints after the reference plugin's ADD of 1 Mbit/800 kbit and
    /// 2 Mbit/1.6 Mbit: `rate 1Mbit burst 100000b lat 25ms` and `rate 2Mbit burst 200000b lat 25ms`.
    #[test]
    fn golden() {
        for (rate, burst, limit, buffer) in [
            (125_000, 100_000, 103_125, 12_500_000),
            (250_000, 200_000, 206_250, 12_500_000),
            (1_250_000, 131_072, 162_322, 1_638_390),
            (12_500_000, 1_250_000, 1_562_500, 1_562_500),
        ] {
            let expected = Tbf {
                rate,
                limit,
                buffer,
                burst: None,
            };
            assert_eq!(bucket_of(rate, burst), expected);
        }
    }

    /// The reference plugin computes in floating point and cuts to 32 bits.
    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the formulas under comparison"
    )]
    fn as_the_reference_plugin_wherever_that_does_not_wrap() {
        let mut random = 7_u64;
        let mut next = |bits: u32| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 16) & ((1 << bits) - 1)
        };
        let mut compared = 0;
        for _ in 0..200_000 {
            let (rate_bits, burst_bits) = (7 + next(5) as u32, 14 + next(4) as u32);
            let rate = next(rate_bits.min(40)) + 1;
            let burst = next(burst_bits.min(32)) as u32;
            let time = f64::from(burst) * 1e6 / rate as f64;
            let buffer = time.floor() * TICKS;
            let limit = (rate as f64 * 25_000.0 / 1e6).floor() + f64::from(burst);
            let wraps = [time, buffer, limit]
                .iter()
                .any(|value| *value >= 4_294_967_296.0);
            let frame_time = 1518 * 1_000_000 / rate + 2;
            let too_slow = rate < 354;
            if wraps || burst < 1518 || too_slow || (time as u64) < frame_time {
                continue;
            }
            compared += 1;
            let expected = Tbf {
                rate,
                limit: limit as u32,
                buffer: buffer as u32,
                burst: None,
            };
            assert_eq!(bucket_of(rate, burst), expected, "burst {burst}");
        }
        assert!(compared > 50_000, "{compared}");
    }

    #[test]
    fn nothing_wraps() {
        let large = bucket_of(u64::MAX / 8, u32::MAX - 1);
        assert_eq!((large.rate, large.limit), (u64::MAX / 8, u32::MAX));
        let slow = bucket_of(1, u32::MAX - 1);
        assert_eq!((slow.limit, slow.burst), (u32::MAX - 1, Some(u32::MAX - 1)));
        let odd = bucket(Limit { rate: 0, burst: 0 }, u32::MAX, f64::NAN);
        assert_eq!(odd.burst, Some(u32::MAX));
    }

    /// Below 354 bytes a second a frame of 1518 takes longer than the kernel takes from ticks.
    #[test]
    fn only_a_slow_bucket_is_told_in_bytes() {
        assert_eq!(bucket_of(354, 0).burst, None);
        assert_eq!(bucket_of(353, 0).burst, Some(1518));
        let slow = Tbf {
            rate: 125,
            limit: 20_003,
            // 160 s.
            buffer: 2_500_000_000,
            burst: Some(20_000),
        };
        assert_eq!(bucket_of(125, 20_000), slow);
    }

    #[test]
    fn a_frame_always_fits() {
        for mtu in [576, 1500, 9000, 65_535] {
            for rate in [
                1,
                8,
                125,
                353,
                354,
                1000,
                125_000,
                1_250_000_000,
                50_000_000_000,
                1 << 40,
            ] {
                for burst in [0, 1, 1000, 1500, 64_000] {
                    let made = bucket(Limit { rate, burst }, mtu, TICKS);
                    let frame = u128::from(mtu + FRAME_OVERHEAD);
                    // The kernel's reading of the bucket: ticks of 64 ns at the rate.
                    let time = (u128::from(made.buffer) * 64).min(u32::MAX.into());
                    let by_time = time * u128::from(rate) / 1_000_000_000;
                    let holds = made.burst.map_or(by_time, u128::from);
                    assert!(holds >= frame, "{mtu} {rate} {burst}: {holds}");
                    assert!(u128::from(made.limit) >= frame);
                }
            }
        }
    }

    /// Rates and bursts that [`crate::config`] lets through, the extreme ones.
    fn extremes() -> impl Iterator<Item = (Limit, u32)> {
        let powers =
            |bits: u32| (0..bits).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let rates = powers(52)
            .filter(|rate| *rate > 0)
            .chain([MAX_RATE - 1, MAX_RATE]);
        rates.flat_map(|rate| {
            let bursts = [0, 1, 1500, 1 << 16, 1 << 28, u32::MAX - 1, u32::MAX];
            bursts.into_iter().flat_map(move |burst| {
                [68, 1500, 65_535, u32::MAX].map(|mtu| (Limit { rate, burst }, mtu))
            })
        })
    }

    /// `psched_ns_t2l` of net/sched/sch_tbf.c: time by rate in 64 bits, and at least a byte.
    #[test]
    fn the_kernel_s_product_neither_wraps_nor_is_less_than_a_byte() {
        for (limit, mtu) in extremes() {
            let made = bucket(limit, mtu, TICKS);
            if made.burst.is_some() {
                continue;
            }
            let time = (u64::from(made.buffer) * 64).min(u32::MAX.into());
            let product = u128::from(time) * u128::from(made.rate);
            assert!(product < 1 << 64, "{limit:?} {mtu}: {product}");
            assert!(product >= 1_000_000_000, "{limit:?} {mtu}: {product}");
        }
    }

    #[test]
    fn the_kernel_takes_every_accepted_pair() {
        let Ok(netns) = Netns::anonymous() else {
            return lab::skip("cannot make network namespaces");
        };
        let node = Netlink::in_netns(&netns).unwrap();
        node.create_ifb("ifb", None, 0, 1500).unwrap();
        let index = node.link("ifb").unwrap().unwrap().index;
        let ticks = net::qdisc::ticks_per_microsecond().unwrap();
        for (limit, mtu) in extremes() {
            let made = bucket(limit, mtu, ticks);
            let taken = node.add_tbf(index, made, true);
            taken.unwrap_or_else(|error| panic!("{limit:?} {mtu}: {error}"));
            let qdiscs = node.qdiscs(index).unwrap();
            let read = qdiscs.iter().find_map(|qdisc| qdisc.tbf);
            let told = Tbf {
                burst: None,
                ..made
            };
            assert_eq!(read, Some(told), "{limit:?} {mtu}");
        }
    }
}
