//! What a route may ask for.

use std::fmt;

use ipnet::IpNet;

use super::Route;

/// The largest MTU and segment size that the kernel keeps; it cuts larger ones
/// (`ip_metrics_convert` of its net/ipv4/metrics.c).
const MAX_MTU: u32 = 65_520;
const MAX_ADVMSS: u32 = 65_495;
/// The least MTU that a link may have (RFC 791, section 3.2; RFC 8200, section 5).
const MIN_MTU_V4: u32 = 68;
const MIN_MTU_V6: u32 = 1280;

/// `RT_SCOPE_LINK` and `RT_SCOPE_NOWHERE` of linux/rtnetlink.h.
const LINK: u8 = 253;
const NOWHERE: u8 = 255;

/// A value that no route can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFlaw {
    /// The key, as in a result.
    pub key: &'static str,
    value: u32,
    allowed: String,
}

impl fmt::Display for RouteFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteFlaw {
            key,
            value,
            allowed,
        } = self;
        write!(f, "{key}: {value} must be {allowed}")
    }
}

impl Route {
    /// Whether the destination is on the link itself, by the scope: such a route has no gateway.
    /// IPv6 knows no scopes of routes.
    pub fn is_on_link(&self) -> bool {
        !self.is_ipv6() && self.scope.is_some_and(|scope| scope >= LINK)
    }

    fn is_ipv6(&self) -> bool {
        matches!(self.dst, IpNet::V6(_))
    }

    /// Finds what the kernel would refuse, or keep otherwise. Zeros stand for nothing.
    ///
    /// # Errors
    /// The first such value.
    pub fn validate(&self) -> Result<(), RouteFlaw> {
        let least = if self.is_ipv6() {
            MIN_MTU_V6
        } else {
            MIN_MTU_V4
        };
        in_range("mtu", self.mtu, least, MAX_MTU)?;
        in_range("advmss", self.advmss, 1, MAX_ADVMSS)?;
        let scope = self.scope.filter(|_| self.is_on_link()).unwrap_or_default();
        let allowed = match self.gw {
            Some(gw) if self.is_on_link() => format!("below {LINK} with \"gw\" {gw}"),
            _ if scope == NOWHERE => format!("below {NOWHERE}"),
            _ => return Ok(()),
        };
        Err(RouteFlaw {
            key: "scope",
            value: scope.into(),
            allowed,
        })
    }
}

fn in_range(key: &'static str, value: Option<u32>, least: u32, most: u32) -> Result<(), RouteFlaw> {
    match value {
        Some(value) if value != 0 && !(least..=most).contains(&value) => Err(RouteFlaw {
            key,
            value,
            allowed: format!("0, or {least} to {most}"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(json: &str) -> Option<String> {
        let route: Route = serde_json::from_str(json).unwrap();
        route.validate().err().map(|flaw| flaw.to_string())
    }

    #[test]
    fn what_the_kernel_keeps_is_allowed() {
        for json in [
            r#"{"dst": "10.9.0.0/16"}"#,
            r#"{"dst": "10.9.0.0/16", "mtu": 0, "advmss": 0, "priority": 0, "table": 0, "scope": 0}"#,
            r#"{"dst": "10.9.0.0/16", "mtu": 68, "advmss": 1, "gw": "10.1.0.1", "scope": 252}"#,
            r#"{"dst": "fd09::/64", "mtu": 65520, "advmss": 65495, "priority": 4294967295}"#,
            r#"{"dst": "fd09::/64", "mtu": 1280, "table": 4294967295, "scope": 255, "gw": "fd00::1"}"#,
        ] {
            assert_eq!(flaw(json), None, "{json}");
        }
    }

    #[test]
    fn what_it_would_refuse_or_change_is_named() {
        for (keys, expected) in [
            (r#""mtu": 67"#, "mtu: 67 must be 0, or 68 to 65520"),
            (r#""mtu": 65521"#, "mtu: 65521 must be 0, or 68 to 65520"),
            (
                r#""advmss": 65496"#,
                "advmss: 65496 must be 0, or 1 to 65495",
            ),
            (r#""scope": 255"#, "scope: 255 must be below 255"),
            (
                r#""scope": 253, "gw": "10.1.0.1""#,
                "scope: 253 must be below 253 with \"gw\" 10.1.0.1",
            ),
        ] {
            let json = format!(r#"{{"dst": "10.9.0.0/16", {keys}}}"#);
            assert_eq!(flaw(&json).as_deref(), Some(expected));
        }
        assert_eq!(
            flaw(r#"{"dst": "::/0", "mtu": 1279}"#).as_deref(),
            Some("mtu: 1279 must be 0, or 1280 to 65520")
        );
    }
}
