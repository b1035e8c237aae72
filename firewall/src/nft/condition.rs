//! Conditions of the configuration, in the words of `nft`: of its language the few that make sense
//! for a host port. None is about the packet's mark, which the port's own rules change.

use std::net::IpAddr;

use ipnet::IpNet;

use super::expr::{self, Part};
use super::field::Field;
use crate::rule::Family;

/// What is understood, for error messages.
const ALLOWED: &str = "ip saddr, ip daddr (ip6 for IPv6) and iifname, each with == or != where \
                       wanted, then an address, a network or a name";

/// The conditions of words, however they are spread over the list; all of them must be fulfilled.
///
/// # Errors
/// What is not understood, and what is.
pub fn parse(family: Family, words: &[String]) -> Result<Vec<Part>, String> {
    let text = words.join(" ");
    let mut words = text.split_whitespace();
    let mut parts = Vec::new();
    while let Some(word) = words.next() {
        let subject = match word {
            "ip" | "ip6" | "meta" => format!("{word} {}", words.next().unwrap_or_default()),
            other => other.to_owned(),
        };
        let (inverted, value) = match words.next() {
            Some("!=") => (true, words.next()),
            Some("==") => (false, words.next()),
            value => (false, value),
        };
        let value = value.unwrap_or_default();
        let part = condition(family, &subject, inverted, value).ok_or_else(|| {
            format!("{subject} {value:?} is not supported in {text:?}; allowed: {ALLOWED}")
        })?;
        parts.push(part);
    }
    Ok(parts)
}

fn condition(family: Family, subject: &str, inverted: bool, value: &str) -> Option<Part> {
    let net = |field| {
        let net = value
            .parse()
            .or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
        let net = net.ok().filter(|net| Family::of(net) == family)?;
        Some(expr::net_is(field, net, inverted))
    };
    match (subject, family) {
        ("ip saddr", Family::V4) | ("ip6 saddr", Family::V6) => net(Field::Source),
        ("ip daddr", Family::V4) | ("ip6 daddr", Family::V6) => net(Field::Destination),
        ("iifname" | "meta iifname", _) => {
            let name = value.trim_matches('"');
            is_name(name).then(|| expr::input_is(name, inverted))
        }
        _ => None,
    }
}

/// At most 15 bytes; a `*` at its end stands for the rest, and alone for nothing that is a condition.
fn is_name(name: &str) -> bool {
    let stem = name.strip_suffix('*').unwrap_or(name);
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '"' | '\\' | '/' | ':');
    !stem.is_empty() && name.len() <= 15 && stem.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(family: Family, words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(family, &words).map(|parts| Part::all(parts).text)
    }

    #[test]
    fn words_may_be_spread_as_one_likes() {
        let expected = Ok("ip saddr != 192.0.2.0/24 iifname \"eth*\"".to_owned());
        for words in [
            &["ip saddr != 192.0.2.7/24 iifname eth*"][..],
            &[
                "ip",
                "saddr",
                "!=",
                "192.0.2.0/24",
                "meta",
                "iifname",
                "\"eth*\"",
            ],
            &["ip saddr", "!= 192.0.2.0/24", "iifname == eth*"],
        ] {
            assert_eq!(texts(Family::V4, words), expected, "{words:?}");
        }
        assert_eq!(texts(Family::V4, &[]), Ok(String::new()));
    }

    #[test]
    fn each_subject_is_understood() {
        for (family, words, text) in [
            (Family::V4, "ip daddr 192.0.2.1", "ip daddr 192.0.2.1"),
            (Family::V6, "ip6 saddr fd00::/8", "ip6 saddr fd00::/8"),
            (Family::V6, "ip6 daddr != fd00::1", "ip6 daddr != fd00::1"),
            (Family::V6, "iifname != eth0", "iifname != \"eth0\""),
        ] {
            assert_eq!(texts(family, &[words]).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for words in [
            "tcp sport 1",
            "ip saddr",
            "ip saddr { 10.0.0.1 }",
            "ip saddr fd00::1",
            "ip6 saddr fd00::1",
            "ip saddr 10.0.0.0/33",
            "iifname *",
            "iifname 1234567890123456",
            "meta mark 16",
            "!= 10.0.0.1",
            "drop",
        ] {
            let error = texts(Family::V4, &[words]).unwrap_err();
            assert!(
                error.contains("is not supported") && error.contains(words),
                "{error}"
            );
            assert!(error.contains("and iifname, each"));
        }
    }
}
