//! What is expected of a measured value: pure functions.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use lab::Sighting;

/// A measured value, and whether it is what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) holds: bool,
    pub(super) value: String,
}

impl Measured {
    pub(super) fn new(holds: bool, value: impl Into<String>) -> Measured {
        Measured {
            holds,
            value: value.into(),
        }
    }
}

/// Two rates in bits per second: at most a tenth apart.
pub(super) fn rate(measured: f64, asked: u32) -> Measured {
    let share = measured / f64::from(asked);
    Measured::new(
        (0.9..=1.1).contains(&share),
        format!(
            "{:.1} Mbit/s of {:.1} asked ({:.0}%)",
            measured / 1e6,
            f64::from(asked) / 1e6,
            share * 100.0
        ),
    )
}

/// The source that a server saw.
pub(super) fn source(seen: Sighting, expected: IpAddr) -> Measured {
    expect("seen as", seen.peer.ip(), expected)
}

/// The server that answered.
pub(super) fn answered(seen: Sighting, expected: SocketAddr) -> Measured {
    let answer = expect("answered by", seen.local, expected);
    Measured::new(
        answer.holds,
        format!("{}, which saw {}", answer.value, seen.peer.ip()),
    )
}

fn expect<T: PartialEq + std::fmt::Display>(what: &str, found: T, expected: T) -> Measured {
    if found == expected {
        Measured::new(true, format!("{what} {found}"))
    } else {
        Measured::new(false, format!("{what} {found}, not {expected}"))
    }
}

/// Addresses that ADD reported, and those that the pod's interface has.
pub(super) fn addresses(reported: &[String], found: &[String]) -> Measured {
    let missing: Vec<_> = reported.iter().filter(|one| !found.contains(one)).collect();
    let mut value = found.join(" ");
    for address in &missing {
        // Writing to a String cannot fail.
        let _ = write!(value, ", without {address}");
    }
    Measured::new(missing.is_empty() && !reported.is_empty(), value)
}

/// One kind of object on the node: how many before the first pod, with both, and after the last;
/// and what is there now and was not before.
pub(super) fn left(before: usize, with: usize, after: usize, since: &[String]) -> Measured {
    let (shared, leaked): (Vec<_>, Vec<_>) = since.iter().partition(|line| is_shared(line));
    let mut value = format!("{before} before, {with} with both pods, {after} after");
    if !shared.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(value, " ({} that all pods share)", shared.len());
    }
    for line in &leaked {
        let _ = write!(value, "; left: {line}");
    }
    // Without a pod's own the count would show nothing.
    let had_own = with > after;
    if !had_own {
        value.push_str("; the pods had none of their own");
    }
    Measured::new(leaked.is_empty() && had_own, value)
}

/// Whether a line of a snapshot is an object that pods share and that stays once made: a bridge, a
/// built-in chain, one of the host ports' common chains, and the rules that lead to and fill them.
fn is_shared(line: &str) -> bool {
    const BUILT_IN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    const CHAINS: [&str; 3] = [
        "CNI-HOSTPORT-DNAT",
        "CNI-HOSTPORT-SETMARK",
        "CNI-HOSTPORT-MASQ",
    ];
    let words: Vec<_> = line.split(' ').collect();
    match words.as_slice() {
        [_, "bridge", ..] => true,
        [_, _, chain, ..] if chain.starts_with(':') => {
            let name = chain.trim_start_matches(':');
            BUILT_IN.contains(&name) || CHAINS.contains(&name)
        }
        [_, _, "-A", chain, .., "-j", target] if BUILT_IN.contains(chain) => {
            CHAINS.contains(target)
        }
        [_, _, "-A", "CNI-HOSTPORT-SETMARK" | "CNI-HOSTPORT-MASQ", ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(peer: &str, local: &str) -> Sighting {
        Sighting {
            peer: peer.parse().unwrap(),
            local: local.parse().unwrap(),
        }
    }

    #[test]
    fn a_rate_holds_within_a_tenth() {
        for (measured, holds) in [
            (17.9e6, false),
            (18.1e6, true),
            (21.9e6, true),
            (22.1e6, false),
        ] {
            assert_eq!(rate(measured, 20_000_000).holds, holds, "{measured}");
        }
        assert_eq!(
            rate(19.1e6, 20_000_000).value,
            "19.1 Mbit/s of 20.0 asked (96%)"
        );
    }

    #[test]
    fn the_source_must_be_the_expected_one() {
        let seen = sighting("192.0.2.10:9", "192.0.2.1:80");
        let expected = "192.0.2.10".parse().unwrap();
        assert_eq!(
            source(seen, expected),
            Measured::new(true, "seen as 192.0.2.10")
        );
        let other = source(seen, "192.0.2.11".parse().unwrap());
        assert_eq!(
            other,
            Measured::new(false, "seen as 192.0.2.10, not 192.0.2.11")
        );
    }

    #[test]
    fn another_server_than_the_pod_is_noticed() {
        let seen = sighting("192.0.2.1:9", "10.244.0.2:80");
        assert!(answered(seen, "10.244.0.2:80".parse().unwrap()).holds);
        assert!(!answered(seen, "10.244.0.3:80".parse().unwrap()).holds);
    }

    #[test]
    fn every_reported_address_must_be_there() {
        let lines =
            |text: &str| -> Vec<String> { text.split_whitespace().map(Into::into).collect() };
        assert!(addresses(&lines("a"), &lines("a b")).holds);
        assert_eq!(
            addresses(&lines("a c"), &lines("a")),
            Measured::new(false, "a, without c")
        );
        assert!(!addresses(&[], &lines("a")).holds, "nothing was given");
    }

    #[test]
    fn what_pods_share_may_stay_and_nothing_else() {
        let shared = [
            "cni0 bridge mac 02:00:00:00:00:01 mtu 1500 address 10.244.0.1/24",
            "iptables-nft-save nat: :PREROUTING ACCEPT",
            "iptables-nft-save nat: :CNI-HOSTPORT-DNAT -",
            "iptables-nft-save nat: -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "iptables-nft-save nat: -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
        ];
        let own = [
            "veth0123456789a veth mac 02:00:00:00:00:01 mtu 1500",
            "iptables-nft-save nat: :CNI-DN-0123 -",
            "iptables-nft-save nat: -A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-0123",
            "iptables-nft-save nat: -A POSTROUTING -s 10.244.0.2/32 -j CNI-0123",
            "bwp0123 tbf handle 1:",
            "10.244.0.2 web eth0",
        ];
        assert!(shared.iter().all(|line| is_shared(line)));
        assert!(!own.iter().any(|line| is_shared(line)));
        let since: Vec<_> = shared.map(String::from).into();
        assert!(left(1, 9, 6, &since).holds);
        assert!(!left(1, 6, 6, &since).holds, "the pods had nothing");
        assert!(!left(1, 9, 2, &[own[0].to_owned()]).holds);
    }
}
