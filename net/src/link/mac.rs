//! Ethernet addresses.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use super::Link;

/// `NET_ADDR_SET` of linux/netdevice.h: someone has set the address.
const NET_ADDR_SET: &str = "3";

/// An Ethernet hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// A unicast address that is no manufacturer's (IEEE 802, its bits "U/L" and "I/G"), of the
    /// other 46 of these bits.
    pub fn local(bits: [u8; 6]) -> Mac {
        let [a, b, c, d, e, f] = bits;
        Mac([(a & 0xfc) | 0x02, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Link {
    /// Whether someone has set its MAC, so that a bridge's does not follow its ports'. `None` where
    /// /sys does not tell, as where it shows another namespace; netlink never does.
    pub fn has_fixed_mac(&self) -> Option<bool> {
        let folder = Path::new("/sys/class/net").join(&self.name);
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let is_it = read("address")?.trim().parse() == Ok(self.mac?);
        let assigned = read("addr_assign_type")?;
        is_it.then(|| assigned.trim() == NET_ADDR_SET)
    }
}

/// The text is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("address {0}: invalid MAC address")]
pub struct InvalidMac(pub String);

impl FromStr for Mac {
    type Err = InvalidMac;

    /// Understands the three spellings that Go's `net.ParseMAC` does: `02:00:5e:10:00:01`, the
    /// same with `-`, and `0200.5e10.0001`.
    fn from_str(text: &str) -> Result<Mac, InvalidMac> {
        parse(text)
            .map(Mac)
            .ok_or_else(|| InvalidMac(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<[u8; 6]> {
    let (separator, group) = match text.get(2..3)? {
        ":" => (':', 2),
        "-" => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    if groups.iter().any(|digits| digits.len() != group) {
        return None;
    }
    let digits = groups.concat();
    if digits.len() != 12 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(&digits, 16).ok()?;
    let [_, _, octets @ ..] = number.to_be_bytes();
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_one_is_unicast_and_locally_administered() {
        for first in 0..=u8::MAX {
            let Mac([made, rest @ ..]) = Mac::local([first, 2, 3, 4, 5, 6]);
            assert_eq!((made & 0x03, made & 0xfc), (0x02, first & 0xfc));
            assert_eq!(rest, [2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn three_spellings() {
        let mac = Mac([0x02, 0x00, 0x5e, 0x10, 0xAB, 0x01]);
        for text in ["02:00:5e:10:ab:01", "02-00-5E-10-AB-01", "0200.5e10.ab01"] {
            assert_eq!(text.parse(), Ok(mac), "{text}");
        }
        assert_eq!(mac.to_string(), "02:00:5e:10:ab:01");
    }

    #[test]
    fn of_a_link_that_sys_does_not_show_nothing_is_said() {
        let link = |name: &str| Link {
            name: name.to_owned(),
            mac: Some(Mac([2, 0, 0, 0, 0, 9])),
            ..Link::default()
        };
        // None of that name, and another of that name.
        for name in ["no-such-link", "lo", ""] {
            assert_eq!(link(name).has_fixed_mac(), None, "{name:?}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "02",
            "02:00:5e:10:ab",
            "02:00:5e:10:ab:01:02:03",
            "02:00:5e:10:ab:g1",
            "02:00-5e:10:ab:01",
            "2:0:5e:10:ab:1",
            "+2:00:5e:10:ab:01",
            "02005e10ab01",
            "0é:00:5e:10:ab:01",
        ] {
            let error = text.parse::<Mac>().expect_err(text);
            assert_eq!(
                error.to_string(),
                format!("address {text}: invalid MAC address")
            );
        }
    }
}
