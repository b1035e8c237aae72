//! Choosing addresses: pure decisions over what the store knows.

use std::net::IpAddr;

use cni::{Error, code};
use ipnet::IpNet;

use crate::range::{Range, RangeSet};

/// What the allocator knows of the store.
pub struct Known<'a> {
    /// Whether an address is reserved, whoever holds it.
    pub is_taken: &'a dyn Fn(IpAddr) -> bool,
    /// The addresses that this attachment has already.
    pub held: &'a [IpAddr],
    /// The address that was given last from the set.
    pub last: Option<IpAddr>,
}

/// An address chosen for the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// With the prefix of its subnet.
    pub address: IpNet,
    /// The subnet's gateway.
    pub gateway: IpAddr,
}

impl Lease {
    fn new(ip: IpAddr, range: &Range) -> Lease {
        Lease {
            address: range.with_prefix(ip),
            gateway: range.gateway,
        }
    }
}

/// Why no address can be given. Programs match on the texts; they are the reference plugin's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    /// The pool is used up.
    #[error("no IP addresses available in range set: {0}")]
    Exhausted(RangeSet),
    /// A gateway was requested.
    #[error("requested ip {0} is subnet's gateway")]
    Gateway(IpAddr),
    /// The requested address is reserved.
    #[error("requested IP address {0} is not available in range set {1}")]
    Taken(IpAddr, RangeSet),
    /// The attachment has an address of the set already: ADD was repeated without DEL.
    #[error("{0} has been allocated to {1}, duplicate allocation is not allowed")]
    Duplicate(IpAddr, String),
}

impl NoAddress {
    /// As the runtime reads it, for the set of that index.
    pub fn in_set(&self, set: usize) -> Error {
        let code = match self {
            NoAddress::Duplicate(..) => code::ALREADY_EXISTS,
            _ => code::NO_ADDRESS,
        };
        Error::new(code, format!("failed to allocate for range {set}: {self}"))
    }
}

/// One address from the set: the first requested one that lies in it, else the next free one
/// behind the one given last. Gateways are never given.
pub fn choose(
    set: &RangeSet,
    requested: &[IpAddr],
    container_id: &str,
    known: &Known,
) -> Result<Lease, NoAddress> {
    let wanted = requested
        .iter()
        .find_map(|ip| Some((*ip, set.range_of(*ip)?)));
    if let Some((ip, _)) = wanted {
        if set.is_gateway(ip) {
            return Err(NoAddress::Gateway(ip));
        }
        if (known.is_taken)(ip) {
            return Err(NoAddress::Taken(ip, set.clone()));
        }
    }
    if let Some(held) = known.held.iter().find(|ip| set.contains(**ip)) {
        return Err(NoAddress::Duplicate(*held, container_id.to_string()));
    }
    wanted
        .or_else(|| {
            // A turn meets at most every taken address and every gateway before a free one, so a
            // pool of any size is searched in no more steps than there are reservations.
            set.turn(known.last)
                .find(|(ip, _)| !set.is_gateway(*ip) && !(known.is_taken)(*ip))
        })
        .map(|(ip, range)| Lease::new(ip, range))
        .ok_or_else(|| NoAddress::Exhausted(set.clone()))
}

/// Refuses requested addresses that no set had.
pub fn all_used(requested: &[IpAddr], leases: &[Lease]) -> Result<(), Error> {
    let unused: Vec<String> = requested
        .iter()
        .filter(|ip| !leases.iter().any(|lease| lease.address.addr() == **ip))
        .map(IpAddr::to_string)
        .collect();
    if unused.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        code::NO_ADDRESS,
        format!("failed to allocate all requested IPs: {}", unused.join(" ")),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ips(text: &str) -> Vec<IpAddr> {
        text.split_whitespace().map(ip).collect()
    }

    /// Ranges as "subnet start end gateway", empty parts as "-".
    fn set(ranges: &[&str]) -> RangeSet {
        let ranges = ranges.iter().map(|text| {
            let mut words = text.split_whitespace();
            let subnet = words.next().unwrap().parse().unwrap();
            let mut optional = || words.next().filter(|word| *word != "-").map(ip);
            Range::new(subnet, optional(), optional(), optional()).unwrap()
        });
        RangeSet::new(ranges.collect()).unwrap()
    }

    struct Pool {
        set: RangeSet,
        taken: HashSet<IpAddr>,
        held: Vec<IpAddr>,
        last: Option<IpAddr>,
    }

    impl Pool {
        fn new(ranges: &[&str], taken: &str, last: &str) -> Pool {
            Pool {
                set: set(ranges),
                taken: ips(taken).into_iter().collect(),
                held: Vec::new(),
                last: ips(last).first().copied(),
            }
        }

        fn choose(&self, requested: &str) -> Result<String, String> {
            let known = Known {
                is_taken: &|ip| self.taken.contains(&ip),
                held: &self.held,
                last: self.last,
            };
            choose(&self.set, &ips(requested), "ID", &known)
                .map(|lease| lease.address.to_string())
                .map_err(|error| error.to_string())
        }
    }

    #[test]
    fn round_robin() {
        let range = &["10.1.0.0/29"][..];
        for (taken, last, expected) in [
            ("", "", "10.1.0.2/29"),
            ("10.1.0.2", "", "10.1.0.3/29"),
            ("", "10.1.0.2", "10.1.0.3/29"),
            ("10.1.0.3 10.1.0.4", "10.1.0.2", "10.1.0.5/29"),
            ("", "10.1.0.6", "10.1.0.2/29"),
            ("10.1.0.2", "10.1.0.6", "10.1.0.3/29"),
            (
                "10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5",
                "10.1.0.6",
                "10.1.0.6/29",
            ),
            ("", "10.9.0.1", "10.1.0.2/29"),
        ] {
            let pool = Pool::new(range, taken, last);
            assert_eq!(
                pool.choose("").unwrap(),
                expected,
                "{taken:?} after {last:?}"
            );
        }
    }

    #[test]
    fn several_ranges_are_one_pool() {
        let ranges = &["10.1.0.0/29 10.1.0.5 10.1.0.6", "10.2.0.0/30 - - 10.2.0.2"][..];
        let pool = Pool::new(ranges, "10.1.0.6", "10.1.0.5");
        assert_eq!(pool.choose("").unwrap(), "10.2.0.1/30");
        let pool = Pool::new(ranges, "10.1.0.6", "10.2.0.1");
        assert_eq!(pool.choose("").unwrap(), "10.1.0.5/29");
    }

    #[test]
    fn gateways_are_never_given() {
        let only = Pool::new(&["10.1.0.0/29 10.1.0.1 10.1.0.1"], "", "");
        assert_eq!(
            only.choose("").unwrap_err(),
            "no IP addresses available in range set: 10.1.0.1-10.1.0.1"
        );
        // Also not from another range of the set.
        let other = &[
            "10.1.0.0/29 10.1.0.2 10.1.0.3 10.1.0.4",
            "10.1.0.0/29 10.1.0.4 10.1.0.5",
        ];
        let pool = Pool::new(other, "", "10.1.0.3");
        assert_eq!(pool.choose("").unwrap(), "10.1.0.5/29");
        assert_eq!(
            pool.choose("10.1.0.4").unwrap_err(),
            "requested ip 10.1.0.4 is subnet's gateway"
        );
    }

    #[test]
    fn exhaustion_names_every_range() {
        let ranges = &["10.1.0.0/30", "10.2.0.0/30 10.2.0.2 10.2.0.2"][..];
        for last in ["", "10.1.0.2", "10.2.0.2"] {
            let pool = Pool::new(ranges, "10.1.0.2 10.2.0.2", last);
            assert_eq!(
                pool.choose("").unwrap_err(),
                "no IP addresses available in range set: 10.1.0.1-10.1.0.2,10.2.0.2-10.2.0.2"
            );
        }
    }

    #[test]
    fn a_requested_address_is_given_or_refused() {
        let ranges = &["10.1.0.0/29", "10.2.0.0/29"][..];
        let pool = Pool::new(ranges, "10.1.0.3", "10.1.0.2");
        assert_eq!(pool.choose("10.2.0.5").unwrap(), "10.2.0.5/29");
        assert_eq!(
            pool.choose("192.168.0.1 10.2.0.5 10.2.0.6").unwrap(),
            "10.2.0.5/29"
        );
        assert_eq!(
            pool.choose("10.1.0.3").unwrap_err(),
            "requested IP address 10.1.0.3 is not available in range set \
             10.1.0.1-10.1.0.6,10.2.0.1-10.2.0.6"
        );
        // One that is of no range is another set's matter.
        assert_eq!(pool.choose("192.168.0.1").unwrap(), "10.1.0.4/29");
    }

    #[test]
    fn a_repeated_add_is_refused() {
        let mut pool = Pool::new(&["10.1.0.0/29"], "10.1.0.3", "10.1.0.3");
        pool.held = ips("10.9.0.1 10.1.0.3");
        let duplicate =
            "10.1.0.3 has been allocated to ID, duplicate allocation is not allowed".to_string();
        assert_eq!(pool.choose(""), Err(duplicate.clone()));
        assert_eq!(pool.choose("10.1.0.5"), Err(duplicate));
        assert!(
            pool.choose("10.1.0.3")
                .unwrap_err()
                .starts_with("requested IP address")
        );
        // An address of another set is no reason.
        pool.held = ips("10.9.0.1");
        assert_eq!(pool.choose("").unwrap(), "10.1.0.4/29");
    }

    #[test]
    fn requested_addresses_must_all_be_used() {
        let lease = |text: &str| Lease {
            address: text.parse().unwrap(),
            gateway: ip("10.1.0.1"),
        };
        let leases = [lease("10.1.0.2/24"), lease("fd00::2/64")];
        assert_eq!(all_used(&[], &leases), Ok(()));
        assert_eq!(all_used(&ips("fd00::2 10.1.0.2"), &leases), Ok(()));
        let error = all_used(&ips("10.9.0.1 10.1.0.2 fd09::1"), &leases).unwrap_err();
        assert_eq!(
            error.msg,
            "failed to allocate all requested IPs: 10.9.0.1 fd09::1"
        );
        assert_eq!(error.code, code::NO_ADDRESS);
    }

    #[test]
    fn errors_have_codes_and_the_sets_number() {
        let exhausted = NoAddress::Exhausted(set(&["10.1.0.0/30"])).in_set(1);
        assert_eq!(exhausted.code, code::NO_ADDRESS);
        assert_eq!(
            exhausted.msg,
            "failed to allocate for range 1: \
             no IP addresses available in range set: 10.1.0.1-10.1.0.2"
        );
        let duplicate = NoAddress::Duplicate(ip("10.1.0.2"), "ID".to_string()).in_set(0);
        assert_eq!(duplicate.code, code::ALREADY_EXISTS);
    }

    #[test]
    fn a_pool_far_larger_than_memory() {
        let taken: String = (1..=2000).map(|i| format!("fd00::{i:x} ")).collect();
        let pool = Pool::new(&["fd00::/8"], &taken, "");
        assert_eq!(pool.choose("").unwrap(), "fd00::7d1/8");
    }

    /// Any sequence of giving and freeing: no address twice, none outside, no gateway, and a
    /// refusal only when all are taken.
    #[test]
    fn no_address_is_given_twice() {
        let ranges = &["10.1.0.0/28 10.1.0.0 10.1.0.9 10.1.0.4", "10.1.0.16/29"][..];
        let capacity = 10 - 1 + 6 - 1;
        let mut random = 1_u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            usize::try_from(random >> 40).unwrap()
        };
        let mut pool = Pool::new(ranges, "", "");
        let mut given: Vec<IpAddr> = Vec::new();
        for _ in 0..20_000 {
            if next() % 100 < 45 && !given.is_empty() {
                let freed = given.swap_remove(next() % given.len());
                pool.taken.remove(&freed);
                continue;
            }
            let known = Known {
                is_taken: &|ip| pool.taken.contains(&ip),
                held: &[],
                last: pool.last,
            };
            match choose(&pool.set, &[], "ID", &known) {
                Ok(lease) => {
                    let ip = lease.address.addr();
                    assert!(pool.set.contains(ip) && !pool.set.is_gateway(ip));
                    assert!(pool.taken.insert(ip), "{ip} was given twice");
                    given.push(ip);
                    pool.last = Some(ip);
                }
                Err(error) => assert_eq!(given.len(), capacity, "{error}"),
            }
        }
    }
}
