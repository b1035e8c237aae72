//! Source NAT of a pod's traffic that leaves its network.

use ipnet::IpNet;

use crate::garbage::{Garbage, Kind};
use crate::names;
use crate::nft::{self, Settling};
use crate::rule::{Family, Rule, address_match, multicast, quote};
use crate::ruleset::{RuleSet, Shared};
use crate::verbs::{self, Adding, Leftover, Tools};
use crate::{Backend, Error, Owner, Result};

const PREFIX: &str = "CNI-";

/// The chains of attachments.
pub(crate) const KIND: Kind = Kind {
    prefix: PREFIX,
    words: "",
    entered_from: "POSTROUTING",
};

/// What ADD needs of the node: found before it changes anything.
#[derive(Debug)]
pub struct Ready {
    /// `None` for the nftables backend.
    tools: Option<Tools>,
}

/// Sees that the backend can be used, for one family at least.
///
/// # Errors
/// [`Error::NoTool`], or the kernel's.
pub fn ready(backend: Backend) -> Result<Ready> {
    if backend == Backend::Nftables {
        nft::preflight()?;
        return Ok(Ready { tools: None });
    }
    let tools = Tools::find();
    Family::any(|any| tools.expect(Family::of(&any)))?;
    Ok(Ready { tools: Some(tools) })
}

impl Ready {
    /// Sees that it can be used for these addresses.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn expect(&self, addresses: &[IpNet]) -> Result<()> {
        let Some(tools) = &self.tools else {
            return Ok(());
        };
        let mut families = addresses.iter().map(Family::of);
        families.try_for_each(|family| tools.expect(family))
    }

    /// Uses the time until the addresses are known.
    pub fn warm_up(&self) {
        if let Some(tools) = &self.tools {
            tools.warm_up();
        }
    }

    /// Begins to make the rules of the attachment's addresses, which is done when
    /// [`Adding::finish`] says so. What it had before is replaced, by whichever backend it was made.
    /// On an error nothing of it is left.
    ///
    /// # Errors
    /// The tool's, or the kernel's.
    pub fn begin(self, owner: Owner, addresses: &[IpNet]) -> Result<Adding> {
        let chain = names::chain(PREFIX, owner);
        let Some(tools) = self.tools else {
            verbs::forget(&chain)?;
            return nft::add_masquerade(owner, addresses).map(|()| Adding::done());
        };
        nft::forget_masquerade(owner)?;
        verbs::begin(tools, &chain, |family| {
            rules(&chain, owner, addresses, family)
        })
    }
}

/// Makes the rules at once.
///
/// # Errors
/// As [`ready`] and [`Ready::begin`].
pub fn add(backend: Backend, owner: Owner, addresses: &[IpNet]) -> Result<()> {
    ready(backend)?.begin(owner, addresses)?.finish()
}

/// Removes whatever rules the attachment has, of both families, by whichever backend and variant of
/// iptables they were made, found by the attachment alone. What a reference plugin left for another
/// interface than `eth0` is found with `addresses`, as in [`crate::hostport::delete`].
///
/// # Errors
/// Only where rules are still there, or may be and nobody can tell (`expected`).
pub fn delete(owner: Owner, addresses: &[IpNet], expected: bool) -> Result<Settling> {
    let leftovers = Leftover::of(PREFIX, owner, addresses);
    let (results, settling) = nft::keep(|| {
        let by_iptables = verbs::delete(&leftovers, expected).map(drop);
        [by_iptables, nft::delete_masquerade(owner, expected)]
    });
    Error::all(results.into_iter().filter_map(Result::err).collect())?;
    Ok(settling)
}

/// Removes whatever rules attachments of the network have, of both families, by whichever backend
/// and variant of iptables they were made, except those of the `valid` ones.
///
/// # Errors
/// What is still there, or may be.
pub fn gc(network: &str, valid: &[Owner]) -> Result<()> {
    let (_, by_iptables) = verbs::gc(&[Garbage::new(KIND, network, valid)]);
    let results = [by_iptables, nft::gc_masquerade(network, valid)];
    Error::all(results.into_iter().filter_map(Result::err).collect())
}

/// Whether every rule is there, in its order.
///
/// # Errors
/// [`Error::Missing`] names the first that is not.
pub fn check(backend: Backend, owner: Owner, addresses: &[IpNet]) -> Result<()> {
    if backend == Backend::Nftables {
        return nft::check_masquerade(owner, addresses);
    }
    verbs::check(PREFIX, owner, |chain, family| {
        rules(chain, owner, addresses, family)
    })
}

/// The rules of one family, if there is an address of it: what stays in the pod's network is let
/// through, all else but multicast gets the node's address.
fn rules(chain: &str, owner: Owner, addresses: &[IpNet], family: Family) -> Option<RuleSet> {
    let comment = quote(&names::masquerade_comment(owner));
    let nets: Vec<_> = addresses
        .iter()
        .filter(|net| Family::of(net) == family)
        .collect();
    if nets.is_empty() {
        return None;
    }
    let multicast = multicast(family);
    let mut own: Vec<Rule> = Vec::new();
    for net in &nets {
        let inside = address_match("-d", &net.trunc());
        let spec = format!("{inside}-m comment --comment {comment} -j ACCEPT");
        let rule = Rule::new(chain, spec);
        if !own.contains(&rule) {
            own.push(rule);
        }
    }
    let spec = format!("! -d {multicast} -m comment --comment {comment} -j MASQUERADE");
    own.push(Rule::new(chain, spec));
    let entry = |net: &&IpNet| {
        let host = IpNet::from(net.addr());
        let spec = format!("-s {host} -m comment --comment {comment} -j {chain}");
        Rule::new("POSTROUTING", spec)
    };
    Some(RuleSet {
        own,
        entries: nets.iter().map(entry).collect(),
        chain: chain.to_owned(),
        foreign_words: false,
        shared: Shared::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        network: "mynet",
        container_id: "cont1",
        ifname: "eth0",
    };

    fn rules(owner: Owner, addresses: &[IpNet], family: Family) -> Option<RuleSet> {
        super::rules(&names::chain(PREFIX, owner), owner, addresses, family)
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn lines(rules: &[Rule]) -> Vec<String> {
        let short = |rule: &Rule| {
            rule.append().replace(
                r#"-m comment --comment "name: \"mynet\" id: \"cont1\"""#,
                "C",
            )
        };
        rules.iter().map(short).collect()
    }

    #[test]
    fn one_address() {
        let set = rules(OWNER, &nets(&["10.1.2.2/24"]), Family::V4).unwrap();
        assert_eq!(
            lines(&set.own),
            [
                "-A CNI-c729ec77c46fa9b53d651af8 -d 10.1.2.0/24 C -j ACCEPT",
                "-A CNI-c729ec77c46fa9b53d651af8 ! -d 224.0.0.0/4 C -j MASQUERADE",
            ]
        );
        assert_eq!(
            lines(&set.entries),
            ["-A POSTROUTING -s 10.1.2.2/32 C -j CNI-c729ec77c46fa9b53d651af8"]
        );
        assert_eq!(rules(OWNER, &nets(&["10.1.2.2/24"]), Family::V6), None);
    }

    #[test]
    fn several_addresses_of_both_families() {
        let addresses = nets(&["fd00::2/64", "10.1.2.2/24", "10.1.2.3/24", "10.2.0.1/0"]);
        let set = rules(OWNER, &addresses, Family::V6).unwrap();
        assert_eq!(
            lines(&set.own),
            [
                "-A CNI-c729ec77c46fa9b53d651af8 -d fd00::/64 C -j ACCEPT",
                "-A CNI-c729ec77c46fa9b53d651af8 ! -d ff00::/8 C -j MASQUERADE",
            ]
        );
        assert_eq!(
            lines(&set.entries),
            ["-A POSTROUTING -s fd00::2/128 C -j CNI-c729ec77c46fa9b53d651af8"]
        );
        let set = rules(OWNER, &addresses, Family::V4).unwrap();
        assert_eq!(
            lines(&set.own),
            [
                "-A CNI-c729ec77c46fa9b53d651af8 -d 10.1.2.0/24 C -j ACCEPT",
                "-A CNI-c729ec77c46fa9b53d651af8 C -j ACCEPT",
                "-A CNI-c729ec77c46fa9b53d651af8 ! -d 224.0.0.0/4 C -j MASQUERADE",
            ]
        );
        assert_eq!(set.entries.len(), 3);
    }
}
