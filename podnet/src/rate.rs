//! Rates as the command line says them.

use std::num::IntErrorKind;
use std::str::FromStr;

use serde_json::{Map, Value};

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

/// The least burst: 128 KiB in bits, two of the largest packets that a link hands over at once.
const MIN_BURST: u64 = 128 * 1024 * 8;

/// A whole number of bits per second, with `k`, `M` or `G` for the powers of 1000.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let (digits, factor) = match text.strip_suffix(['k', 'M', 'G']) {
            Some(digits) if text.ends_with('k') => (digits, 1_000),
            Some(digits) if text.ends_with('M') => (digits, 1_000_000),
            Some(digits) => (digits, 1_000_000_000),
            None => (text, 1),
        };
        let rate = match digits.parse::<u64>() {
            Ok(number) => number.checked_mul(factor),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => None,
            Err(_) => Some(0),
        };
        match rate {
            Some(0) => Err("expected bits per second as 500k, 10M or 1G, more than 0".to_owned()),
            Some(rate) => Ok(Rate(rate)),
            None => Err(format!("expected at most {} bits per second", u64::MAX)),
        }
    }
}

impl Rate {
    /// What may pass at once before the rate holds, in bits: 0.1 s of the rate.
    fn burst(self) -> u64 {
        (self.0 / 10).max(MIN_BURST)
    }
}

/// The capability `bandwidth`; `None` without a rate.
pub fn bandwidth(ingress: Option<Rate>, egress: Option<Rate>) -> Option<Value> {
    let mut capability = Map::new();
    for (name, rate) in [("ingress", ingress), ("egress", egress)] {
        if let Some(rate) = rate {
            capability.insert(format!("{name}Rate"), rate.0.into());
            capability.insert(format!("{name}Burst"), rate.burst().into());
        }
    }
    (!capability.is_empty()).then(|| capability.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms() {
        for (text, bits) in [
            ("1", Some(1)),
            ("500k", Some(500_000)),
            ("10M", Some(10_000_000)),
            ("1G", Some(1_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("18446744073709551G", None),
            ("0", None),
            ("0M", None),
            ("", None),
            ("M", None),
            ("1.5M", None),
            ("-1", None),
            ("1m", None),
        ] {
            assert_eq!(text.parse::<Rate>().ok(), bits.map(Rate), "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_said() {
        let said = |text: &str| text.parse::<Rate>().unwrap_err();
        for large in ["18446744073709551616", "18446744073709551G"] {
            assert!(said(large).contains("at most 18446744073709551615"));
        }
        assert!(said("-1").contains("more than 0"));
    }

    #[test]
    fn the_capability() {
        assert_eq!(bandwidth(None, None), None);
        assert_eq!(
            bandwidth(Some(Rate(1_000_000)), None),
            Some(json!({"ingressRate": 1_000_000, "ingressBurst": 1_048_576}))
        );
        assert_eq!(
            bandwidth(Some(Rate(1)), Some(Rate(20_000_000))),
            Some(json!({
                "ingressRate": 1, "ingressBurst": 1_048_576,
                "egressRate": 20_000_000, "egressBurst": 2_000_000,
            }))
        );
    }
}
