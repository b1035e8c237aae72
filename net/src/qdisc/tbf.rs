//! The token bucket filter, packed and read by hand: netlink-packet-route has no type for it.

use netlink_packet_core::{DefaultNla, Nla, NlasIterator};
use netlink_packet_route::tc::{TcAttribute, TcOption};

pub(super) const KIND: &str = "tbf";

/// Of linux/pkt_sched.h.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

/// Length of `struct tc_tbf_qopt`: two `struct tc_ratespec` of 12 bytes (the rate is the last 4),
/// then limit, buffer and mtu.
const PARMS_LEN: usize = 36;

/// A token bucket without a peak rate, as the kernel holds it (`struct tc_tbf_qopt` of
/// linux/pkt_sched.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tbf {
    /// In bytes per second; above 2^32-1 it travels as `TCA_TBF_RATE64`.
    pub rate: u64,
    /// Queue, in bytes.
    pub limit: u32,
    /// Size of the bucket, in psched ticks at `rate`. The kernel takes no more than 2^32 ns from it.
    pub buffer: u32,
    /// The same in bytes, for a bucket that takes longer to fill: it goes instead of `buffer`, which
    /// the kernel then works out itself. Never told of one that is there.
    pub burst: Option<u32>,
}

impl Tbf {
    pub(super) fn attributes(&self) -> Vec<TcAttribute> {
        let option = |kind, value| TcOption::Other(DefaultNla::new(kind, value));
        let mut options = vec![option(TCA_TBF_PARMS, self.parms())];
        if u32::try_from(self.rate).is_err() {
            options.push(option(TCA_TBF_RATE64, self.rate.to_ne_bytes().to_vec()));
        }
        if let Some(burst) = self.burst {
            options.push(option(TCA_TBF_BURST, burst.to_ne_bytes().to_vec()));
        }
        vec![
            TcAttribute::Kind(KIND.to_owned()),
            TcAttribute::Options(options),
        ]
    }

    /// `struct tc_tbf_qopt`. The rest of the rate's description stays 0, as does all of the peak
    /// rate: the kernel then counts the bytes of a frame as they are.
    fn parms(&self) -> Vec<u8> {
        let rate = u32::try_from(self.rate).unwrap_or(u32::MAX);
        let mut parms = Vec::with_capacity(PARMS_LEN);
        parms.extend([0; 8]);
        parms.extend(rate.to_ne_bytes());
        parms.extend([0; 12]);
        parms.extend(self.limit.to_ne_bytes());
        parms.extend(self.buffer.to_ne_bytes());
        parms.extend([0; 4]);
        parms
    }

    /// Reads a tbf's attributes. netlink-packet-route leaves the options of a kind that it does not
    /// know as one attribute with undecoded ones in it.
    pub(crate) fn read(attributes: &[TcAttribute]) -> Option<Tbf> {
        let options = attributes.iter().find_map(|attribute| match attribute {
            TcAttribute::Options(options) => Some(options),
            _ => None,
        })?;
        let Some(TcOption::Other(nested)) = options.first() else {
            return None;
        };
        let mut bytes = vec![0; nested.value_len()];
        nested.emit_value(&mut bytes);
        Tbf::parse(&bytes)
    }

    /// Reads the attributes within `TCA_OPTIONS`.
    fn parse(options: &[u8]) -> Option<Tbf> {
        let mut tbf = None;
        let mut rate64 = None;
        for option in NlasIterator::new(options) {
            let option = option.ok()?;
            match option.kind() {
                TCA_TBF_PARMS => tbf = Tbf::parse_parms(option.value()),
                TCA_TBF_RATE64 => rate64 = option.value().try_into().ok().map(u64::from_ne_bytes),
                _ => {}
            }
        }
        tbf.map(|tbf| Tbf {
            rate: rate64.unwrap_or(tbf.rate),
            ..tbf
        })
    }

    fn parse_parms(parms: &[u8]) -> Option<Tbf> {
        let number = |start| {
            let bytes = parms.get(start..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        let peak_rate = number(20)?;
        (peak_rate == 0).then_some(Tbf {
            rate: number(8)?.into(),
            limit: number(24)?,
            buffer: number(28)?,
            burst: None,
        })
    }
}

// The bytes are those of a little-endian machine.
#[cfg(target_endian = "little")]
#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use super::*;

    fn options(tbf: Tbf) -> Vec<u8> {
        let attributes = tbf.attributes();
        let Some(TcAttribute::Options(options)) = attributes.last() else {
            panic!("no options in {attributes:?}")
        };
        let mut bytes = vec![0; options.as_slice().buffer_len()];
        options.as_slice().emit(&mut bytes);
        bytes
    }

    /// `tc qdisc add dev veth0 root handle 1: tbf rate 1mbit burst 100000b latency 25ms` sends these
    /// parameters, with a rate table that newer kernels do not need.
    const ONE_MBIT: [u8; 40] = [
        0x28, 0x00, 0x01, 0x00, // length 40, TCA_TBF_PARMS
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // rate: cell_log to mpu
        0x48, 0xe8, 0x01, 0x00, // 125000 bytes per second
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // peak rate
        0xd5, 0x92, 0x01, 0x00, // limit 103125 bytes
        0x20, 0xbc, 0xbe, 0x00, // buffer 12500000 ticks
        0x00, 0x00, 0x00, 0x00, // mtu
    ];

    /// `tc qdisc add dev veth0 root handle 1: tbf rate 40gbit …`.
    const FORTY_GBIT: [u8; 52] = [
        0x28, 0x00, 0x01, 0x00, // length 40, TCA_TBF_PARMS
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // rate: cell_log to mpu
        0xff, 0xff, 0xff, 0xff, // saturated
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // peak rate
        0x00, 0x00, 0x00, 0x80, // limit 2^31 bytes
        0x01, 0x00, 0x00, 0x00, // buffer 1 tick
        0x00, 0x00, 0x00, 0x00, // mtu
        0x0c, 0x00, 0x04, 0x00, // length 12, TCA_TBF_RATE64
        0x00, 0xf2, 0x05, 0x2a, 0x01, 0x00, 0x00, 0x00, // 5000000000 bytes per second
    ];

    const SLOW: Tbf = Tbf {
        rate: 125_000,
        limit: 103_125,
        buffer: 12_500_000,
        burst: None,
    };
    const FAST: Tbf = Tbf {
        rate: 5_000_000_000,
        limit: 1 << 31,
        buffer: 1,
        burst: None,
    };

    #[test]
    fn packed_as_the_kernel_takes_it() {
        assert_eq!(options(SLOW), ONE_MBIT);
        assert_eq!(options(FAST), FORTY_GBIT);
    }

    /// What `tc` sends as well, for every bucket.
    #[test]
    fn a_burst_in_bytes_follows() {
        let made = options(Tbf {
            burst: Some(1518),
            ..SLOW
        });
        let (parms, burst) = made.split_at(ONE_MBIT.len());
        assert_eq!(parms, ONE_MBIT);
        assert_eq!(burst, [0x08, 0x00, 0x06, 0x00, 0xee, 0x05, 0x00, 0x00]);
    }

    #[test]
    fn read_as_the_kernel_gives_it() {
        assert_eq!(Tbf::parse(&ONE_MBIT), Some(SLOW));
        assert_eq!(Tbf::parse(&FORTY_GBIT), Some(FAST));
    }

    #[test]
    fn the_widest_32_bit_rate_needs_no_64() {
        let widest = Tbf {
            rate: u32::MAX.into(),
            ..SLOW
        };
        assert_eq!(options(widest).len(), ONE_MBIT.len());
        assert_eq!(Tbf::parse(&options(widest)), Some(widest));
        let wider = Tbf {
            rate: 1 << 32,
            ..SLOW
        };
        assert_eq!(Tbf::parse(&options(wider)), Some(wider));
    }

    #[test]
    fn one_with_a_peak_rate_is_another() {
        let mut peak = ONE_MBIT;
        peak[24] = 1;
        assert_eq!(Tbf::parse(&peak), None);
    }

    #[test]
    fn cut_bytes_are_no_tbf() {
        for length in 0..ONE_MBIT.len() {
            assert_eq!(Tbf::parse(&ONE_MBIT[..length]), None, "{length}");
        }
        // PARMS shorter than the kernel's structure.
        assert_eq!(Tbf::parse(&[0x08, 0, 1, 0, 1, 2, 3, 4]), None);
    }
}
