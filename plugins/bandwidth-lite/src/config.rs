//! The configuration: rates and bursts, written in it or sent by the runtime.

#[cfg(test)]
mod schema;

use cni::{Config, Error, code};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What runtimes send as the burst, in bits, when nobody chose one: the largest `int32` (kubelet)
/// and the largest `uint32` (the CRI). Obeyed, it would let hundreds of megabytes pass before any
/// limit.
const BURST_STAND_INS: [u64; 2] = [2_147_483_647, 4_294_967_295];

/// The fastest rate, in bytes per second: 2^52, some 36 Pbit/s. The kernel multiplies the bucket's
/// time in nanoseconds by the rate in 64 bits that wrap, and refuses a bucket that then holds less
/// than a byte (`tbf_change` and `psched_ns_t2l` of its net/sched/sch_tbf.c). `tbf::bucket` takes
/// the time of at most 2^32 bytes and 2 microseconds more, so the product is at most
/// 2^32 * 10^9 + 2000 * rate: up to here below 2^64, whatever the burst and the MTU.
pub const MAX_RATE: u64 = 1 << 52;

/// The limits of both directions; `None` where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Towards the pod.
    pub ingress: Option<Limit>,
    /// From the pod.
    pub egress: Option<Limit>,
}

/// The limit of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In bytes per second; at least 1.
    pub rate: u64,
    /// What may pass at once after a rest, in bytes.
    pub burst: u32,
}

/// The keys of a configuration of bandwidth, as they are written. Where any rate or burst stands in
/// the configuration itself, be it 0, the runtime's are not looked at.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "bandwidth"))]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    /// The limit into the pod, in bit/s: 8 to 36028797018963968. 0, or without it: no limit. It
    /// needs `ingressBurst`.
    #[cfg_attr(test, schemars(schema_with = "schema::rate"))]
    ingress_rate: Option<u64>,
    /// What may pass into the pod at once after a rest, in bits, below 34359738360; needed with
    /// `ingressRate`. 2147483647 and 4294967295 stand for 0.1 s of the rate, at least 128 KiB.
    #[cfg_attr(test, schemars(schema_with = "schema::burst"))]
    ingress_burst: Option<u64>,
    /// The limit out of the pod, in bit/s: 8 to 36028797018963968. 0, or without it: no limit. It
    /// needs `egressBurst`.
    #[cfg_attr(test, schemars(schema_with = "schema::rate"))]
    egress_rate: Option<u64>,
    /// What may pass out of the pod at once after a rest, in bits, below 34359738360; needed with
    /// `egressRate`. 2147483647 and 4294967295 stand for 0.1 s of the rate, at least 128 KiB.
    #[cfg_attr(test, schemars(schema_with = "schema::burst"))]
    egress_burst: Option<u64>,
    /// Not supported: anything but an empty list is refused.
    #[cfg_attr(test, schemars(length(max = 0)))]
    shaped_subnets: Vec<String>,
    /// Not supported: anything but an empty list is refused.
    #[cfg_attr(test, schemars(length(max = 0)))]
    unshaped_subnets: Vec<String>,
    /// What the runtime knows of the pod.
    runtime_config: RuntimeConfig,
}

/// `runtimeConfig`, what the runtime knows of the pod.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct RuntimeConfig {
    /// The pod's rates: the capability `bandwidth`.
    bandwidth: Bandwidth,
}

/// Rates in bits per second, bursts in bits.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("allOf" = schema::rates_have_bursts()))
)]
#[serde(default, rename_all = "camelCase")]
struct Bandwidth {
    /// As the configuration's own `ingressRate`.
    #[cfg_attr(test, schemars(schema_with = "schema::rate"))]
    ingress_rate: u64,
    /// As the configuration's own `ingressBurst`.
    #[cfg_attr(test, schemars(schema_with = "schema::burst"))]
    ingress_burst: u64,
    /// As the configuration's own `egressRate`.
    #[cfg_attr(test, schemars(schema_with = "schema::rate"))]
    egress_rate: u64,
    /// As the configuration's own `egressBurst`.
    #[cfg_attr(test, schemars(schema_with = "schema::burst"))]
    egress_burst: u64,
    /// Not supported: anything but an empty list is refused.
    #[cfg_attr(test, schemars(length(max = 0)))]
    shaped_subnets: Vec<String>,
    /// Not supported: anything but an empty list is refused.
    #[cfg_attr(test, schemars(length(max = 0)))]
    unshaped_subnets: Vec<String>,
}

/// Whether keys are there, whatever their values.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Presence {
    ingress_rate: Option<IgnoredAny>,
    egress_rate: Option<IgnoredAny>,
    runtime_config: RuntimePresence,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuntimePresence {
    bandwidth: Option<IgnoredAny>,
}

impl Limits {
    /// Reads and checks the limits. Where the configuration itself has any of the four keys, be it
    /// with the value 0, the runtime's are not looked at.
    ///
    /// # Errors
    /// Code 6 for a value of another type, 2 for a key that is not supported, 7 for what is not
    /// allowed.
    pub fn read(config: &Config) -> Result<Limits, Error> {
        let keys: Keys = config.read()?;
        keys.refuse_unsupported()?;
        let asked = keys.written().unwrap_or(keys.runtime_config.bandwidth);
        Ok(Limits {
            ingress: limit("ingress", asked.ingress_rate, asked.ingress_burst)?,
            egress: limit("egress", asked.egress_rate, asked.egress_burst)?,
        })
    }

    /// Whether there is nothing to limit.
    pub fn is_empty(&self) -> bool {
        self.ingress.is_none() && self.egress.is_none()
    }

    /// Whether a configuration speaks of limits at all, be they valid or not.
    pub fn mentioned(config: &Config) -> bool {
        let keys: Presence = config.read_tolerant();
        let written = keys.ingress_rate.is_some() || keys.egress_rate.is_some();
        written || keys.runtime_config.bandwidth.is_some()
    }
}

impl Keys {
    /// Refuses keys of the reference plugin that are not supported: to ignore them would shape other
    /// traffic than was asked for.
    fn refuse_unsupported(&self) -> Result<(), Error> {
        let runtime = &self.runtime_config.bandwidth;
        let keys = [
            ("shapedSubnets", &self.shaped_subnets),
            ("unshapedSubnets", &self.unshaped_subnets),
            (
                "runtimeConfig.bandwidth.shapedSubnets",
                &runtime.shaped_subnets,
            ),
            (
                "runtimeConfig.bandwidth.unshapedSubnets",
                &runtime.unshaped_subnets,
            ),
        ];
        match keys.into_iter().find(|(_, subnets)| !subnets.is_empty()) {
            None => Ok(()),
            Some((key, subnets)) => {
                let msg = format!("{key}: {subnets:?} is not supported");
                let refused = Error::new(code::UNSUPPORTED_FIELD, msg);
                Err(refused.details("allowed: an empty list or absent"))
            }
        }
    }

    fn written(&self) -> Option<Bandwidth> {
        let any = self.ingress_rate.or(self.ingress_burst);
        any.or(self.egress_rate).or(self.egress_burst)?;
        Some(Bandwidth {
            ingress_rate: self.ingress_rate.unwrap_or_default(),
            ingress_burst: self.ingress_burst.unwrap_or_default(),
            egress_rate: self.egress_rate.unwrap_or_default(),
            egress_burst: self.egress_burst.unwrap_or_default(),
            ..Bandwidth::default()
        })
    }
}

/// One direction's limit, from bits. The messages are the reference plugin's.
fn limit(direction: &str, rate: u64, burst: u64) -> Result<Option<Limit>, Error> {
    let refuse = |msg: &str| {
        Err(Error::config(msg).details(format!(
            "\"{direction}Rate\" is {rate} bit/s, \"{direction}Burst\" is {burst} bits"
        )))
    };
    let stand_in = BURST_STAND_INS.contains(&burst);
    match (rate, burst) {
        (0, 0) => return Ok(None),
        (0, _) if stand_in => return Ok(None),
        (0, _) => return refuse("if burst is set, rate must also be set"),
        (_, 0) => return refuse("if rate is set, burst must also be set"),
        (1..8, _) => return refuse("rate must be at least 8 bit/s, one byte per second"),
        _ => {}
    }
    let rate = rate / 8;
    if rate > MAX_RATE {
        return refuse("rate must be at most 36028797018963968 bit/s");
    }
    if stand_in {
        return Ok(Some(Limit {
            rate,
            burst: default_burst(rate),
        }));
    }
    match u32::try_from(burst / 8) {
        Ok(burst) if burst < u32::MAX => Ok(Some(Limit { rate, burst })),
        _ => refuse("burst cannot be more than 4GB"),
    }
}

/// A tenth of a second at the rate, but enough for two large segments as TCP hands them down
/// (64 KiB each), in bytes.
fn default_burst(rate: u64) -> u32 {
    u32::try_from(rate / 10).unwrap_or(u32::MAX).max(128 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(keys: &str) -> Config {
        let separator = if keys.is_empty() { "" } else { "," };
        let text = format!(r#"{{"cniVersion":"1.0.0","name":"net"{separator}{keys}}}"#);
        Config::parse(text.into_bytes()).unwrap()
    }

    fn read(keys: &str) -> Result<Limits, Error> {
        Limits::read(&config(keys))
    }

    fn some(rate: u64, burst: u32) -> Option<Limit> {
        Some(Limit { rate, burst })
    }

    #[test]
    fn bits_become_bytes_once() {
        let limits = read(
            r#""ingressRate":1000000,"ingressBurst":800000,"egressRate":2000007,"egressBurst":1600007"#,
        );
        assert_eq!(
            limits,
            Ok(Limits {
                ingress: some(125_000, 100_000),
                egress: some(250_000, 200_000),
            })
        );
    }

    #[test]
    fn the_runtimes_limits_with_any_case() {
        let limits = read(
            r#""runtimeConfig":{"bandwidth":{"IngressRate":8000,"IngressBurst":80000,"egressRate":0,"EGRESSBURST":0}}"#,
        );
        assert_eq!(
            limits,
            Ok(Limits {
                ingress: some(1000, 10_000),
                egress: None,
            })
        );
    }

    #[test]
    fn a_written_key_wins_over_all_of_the_runtimes() {
        let runtime = r#""runtimeConfig":{"bandwidth":{"egressRate":8000,"egressBurst":80000}}"#;
        for written in ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] {
            let limits = read(&format!(r#""{written}":0,{runtime}"#)).unwrap();
            assert!(limits.is_empty(), "{written}");
        }
        assert!(!read(runtime).unwrap().is_empty());
    }

    #[test]
    fn nothing_to_limit() {
        for keys in [
            "",
            r#""runtimeConfig":null"#,
            r#""runtimeConfig":{"bandwidth":null}"#,
            r#""runtimeConfig":{"bandwidth":{}}"#,
            r#""ingressRate":0,"egressRate":0"#,
            r#""ingressRate":null"#,
            r#""egressBurst":4294967295"#,
        ] {
            assert_eq!(read(keys), Ok(Limits::default()), "{keys}");
        }
    }

    #[test]
    fn refusals_in_the_reference_plugins_words() {
        for (keys, text) in [
            (
                r#""ingressRate":1"#,
                "if rate is set, burst must also be set",
            ),
            (
                r#""egressRate":8000,"egressBurst":0"#,
                "if rate is set, burst must also be set",
            ),
            (
                r#""egressBurst":8"#,
                "if burst is set, rate must also be set",
            ),
            (
                r#""ingressRate":8000,"ingressBurst":34359738360"#,
                "burst cannot be more than 4GB",
            ),
            (
                r#""ingressRate":8000,"ingressBurst":18446744073709551615"#,
                "burst cannot be more than 4GB",
            ),
            (
                r#""egressRate":7,"egressBurst":8000"#,
                "rate must be at least 8 bit/s, one byte per second",
            ),
            (
                r#""ingressRate":9223372036854775808,"ingressBurst":2147483648"#,
                "rate must be at most 36028797018963968 bit/s",
            ),
            (
                r#""egressRate":18446744073709551615,"egressBurst":1"#,
                "rate must be at most 36028797018963968 bit/s",
            ),
            (
                r#""egressRate":36028797018963976,"egressBurst":4294967295"#,
                "rate must be at most 36028797018963968 bit/s",
            ),
        ] {
            let error = read(keys).unwrap_err();
            assert_eq!(
                (error.msg.as_str(), error.code),
                (text, cni::code::INVALID_CONFIG),
                "{keys}"
            );
        }
        let error = read(r#""egressRate":8000"#).unwrap_err();
        assert_eq!(
            error.details,
            r#""egressRate" is 8000 bit/s, "egressBurst" is 0 bits"#
        );
    }

    #[test]
    fn what_is_no_unsigned_integer_is_refused() {
        for value in ["-1", "1.5", "\"1M\"", "18446744073709551616", "[]"] {
            let error = read(&format!(r#""ingressRate":{value},"ingressBurst":8000"#)).unwrap_err();
            assert_eq!(error.code, cni::code::DECODING_FAILURE, "{value}: {error}");
        }
    }

    #[test]
    fn subnets_are_refused_wherever_they_stand() {
        for (keys, text) in [
            (
                r#""shapedSubnets":["10.0.0.0/8"]"#,
                r#"shapedSubnets: ["10.0.0.0/8"] is not supported"#,
            ),
            (
                r#""UnShapedSubnets":["fd00::/8","::/0"],"ingressRate":8000,"ingressBurst":8000"#,
                r#"unshapedSubnets: ["fd00::/8", "::/0"] is not supported"#,
            ),
            (
                r#""runtimeConfig":{"bandwidth":{"ShapedSubnets":["10.0.0.0/8"]}},"egressRate":0"#,
                r#"runtimeConfig.bandwidth.shapedSubnets: ["10.0.0.0/8"] is not supported"#,
            ),
            (
                r#""runtimeConfig":{"bandwidth":{"unshapedSubnets":[""]}}"#,
                r#"runtimeConfig.bandwidth.unshapedSubnets: [""] is not supported"#,
            ),
        ] {
            let error = read(keys).unwrap_err();
            assert_eq!((error.msg.as_str(), error.code), (text, 2), "{keys}");
            assert_eq!(error.details, "allowed: an empty list or absent");
        }
        let none = r#""shapedSubnets":[],"runtimeConfig":{"bandwidth":{"unshapedSubnets":null}}"#;
        assert_eq!(read(none), Ok(Limits::default()));
        let error = read(r#""shapedSubnets":"10.0.0.0/8""#).unwrap_err();
        assert_eq!(error.code, code::DECODING_FAILURE, "{error}");
    }

    #[test]
    fn the_largest_rate() {
        let limits = read(r#""ingressRate":36028797018963968,"ingressBurst":8"#).unwrap();
        assert_eq!(limits.ingress, some(MAX_RATE, 1));
    }

    #[test]
    fn the_largest_burst() {
        let limits = read(r#""ingressRate":8000,"ingressBurst":34359738352"#).unwrap();
        assert_eq!(limits.ingress, some(1000, u32::MAX - 1));
    }

    #[test]
    fn a_runtimes_stand_in_is_no_choice() {
        for stand_in in ["2147483647", "4294967295"] {
            for (rate, burst) in [
                (10_000_000, 131_072),
                (100_000_000, 1_250_000),
                (400_000_000_000_u64, u32::MAX),
            ] {
                let keys = format!(r#""ingressRate":{rate},"ingressBurst":{stand_in}"#);
                assert_eq!(
                    read(&keys).unwrap().ingress,
                    some(rate / 8, burst),
                    "{keys}"
                );
            }
        }
        let chosen = read(r#""ingressRate":8000,"ingressBurst":2147483648"#).unwrap();
        assert_eq!(chosen.ingress, some(1000, 268_435_456));
    }

    #[test]
    fn mentioned_whatever_the_values() {
        for keys in [
            r#""ingressRate":"x""#,
            r#""EGRESSRATE":-5"#,
            r#""runtimeConfig":{"Bandwidth":[]}"#,
            r#""runtimeConfig":{"bandwidth":{}}"#,
        ] {
            assert!(Limits::mentioned(&config(keys)), "{keys}");
        }
        for keys in [
            "",
            r#""runtimeConfig":7"#,
            r#""runtimeConfig":{"bandwidth":null}"#,
        ] {
            assert!(!Limits::mentioned(&config(keys)), "{keys}");
        }
    }
}
