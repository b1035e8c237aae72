//! Host ports as rules, and rules read as host ports.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{HostPorts, Mapping, Mark, Protocol};
use crate::Owner;
use crate::garbage::Kind;
use crate::names;
use crate::rule::{Family, Rule, address_match, quote};
use crate::ruleset::{Place, RuleSet, Shared};

/// Of the chain of an attachment.
pub const PREFIX: &str = "CNI-DN-";
/// Of the chain that the reference plugins' first releases made beside it, to be removed.
pub const LEGACY_PREFIX: &str = "CNI-SN-";

/// Both, with what the comments of the rules that lead to them begin with.
pub const KINDS: [Kind; 2] = [
    Kind {
        prefix: PREFIX,
        words: names::HOSTPORT_WORDS,
        entered_from: DNAT,
    },
    Kind {
        prefix: LEGACY_PREFIX,
        words: "snat ",
        entered_from: "CNI-HOSTPORT-SNAT",
    },
];

/// Where the rules are that lead to the chains of attachments.
pub const DNAT: &str = "CNI-HOSTPORT-DNAT";
const SETMARK: &str = "CNI-HOSTPORT-SETMARK";
const MASQ: &str = "CNI-HOSTPORT-MASQ";

/// `XT_MULTI_PORTS` of linux/netfilter/xt_multiport.h: ports that one rule can name.
const PORTS_PER_ENTRY: usize = 15;

/// The rules of one family, if the pod has an address of it.
pub fn rules(chain: &str, owner: Owner, ports: &HostPorts, family: Family) -> Option<RuleSet> {
    let address = ports.address(family)?;
    Some(RuleSet {
        own: ports
            .mappings
            .iter()
            .filter(|mapping| mapping.serves(family))
            .flat_map(|mapping| forward(chain, ports, address, mapping))
            .collect(),
        entries: entries(chain, owner, ports, family),
        foreign_words: !ports.conditions(family).is_empty(),
        shared: shared(ports),
        chain: chain.to_owned(),
    })
}

/// What all attachments share.
fn shared(ports: &HostPorts) -> Shared {
    let mut chains = Vec::new();
    let mut rules = Vec::new();
    if let Mark::Bit(bit) = ports.mark
        && ports.snat
    {
        let mark = format!("{:#x}", 1_u32.checked_shl(bit.into()).unwrap_or_default());
        chains.extend([SETMARK, MASQ]);
        rules.extend([
            (
                Rule::new(
                    SETMARK,
                    format!(
                        "-m comment --comment \"CNI portfwd masquerade mark\" \
                         -j MARK --set-xmark {mark}/{mark}"
                    ),
                ),
                Place::Last,
            ),
            (
                Rule::new(MASQ, format!("-m mark --mark {mark}/{mark} -j MASQUERADE")),
                Place::Last,
            ),
            (
                // In front of whatever else might masquerade or accept.
                Rule::new(
                    "POSTROUTING",
                    format!("-m comment --comment \"CNI portfwd requiring masquerade\" -j {MASQ}"),
                ),
                Place::First,
            ),
        ]);
    }
    chains.push(DNAT);
    let jump = format!("-m addrtype --dst-type LOCAL -j {DNAT}");
    rules.extend(["PREROUTING", "OUTPUT"].map(|chain| (Rule::new(chain, &jump), Place::Last)));
    Shared { chains, rules }
}

/// The rules that lead to the attachment's chain: by protocol, then in the order given, all ports
/// whatever their host address.
fn entries(chain: &str, owner: Owner, ports: &HostPorts, family: Family) -> Vec<Rule> {
    let comment = quote(&names::hostport_comment(owner));
    let conditions: String = ports
        .conditions(family)
        .iter()
        .map(|word| quote(word) + " ")
        .collect();
    let mut protocols: Vec<Protocol> = ports.mappings.iter().map(|m| m.protocol).collect();
    protocols.sort();
    protocols.dedup();
    let mut entries = Vec::new();
    for protocol in protocols {
        let of_protocol = ports.mappings.iter().filter(|m| m.protocol == protocol);
        let numbers: Vec<_> = of_protocol.map(|m| m.host_port.to_string()).collect();
        entries.extend(numbers.chunks(PORTS_PER_ENTRY).map(|group| {
            Rule::new(
                DNAT,
                format!(
                    "-p {protocol} -m comment --comment {comment} -m multiport --dports {} \
                     {conditions}-j {chain}",
                    group.join(",")
                ),
            )
        }));
    }
    entries
}

/// The rules of one port: what must be masqueraded is marked, then all goes to the pod.
fn forward(chain: &str, ports: &HostPorts, address: &IpNet, mapping: &Mapping) -> Vec<Rule> {
    let protocol = mapping.protocol;
    let host_ip = mapping.host_ip.filter(|ip| !ip.is_unspecified());
    let port = format!(
        "{}-p {protocol} -m {protocol} --dport {}",
        host_ip.map_or_else(String::new, |ip| address_match("-d", &ip.into())),
        mapping.host_port
    );
    let mut rules = Vec::new();
    if ports.snat {
        let set_mark = match ports.mark {
            Mark::Bit(_) => SETMARK,
            Mark::Chain(chain) => chain,
        };
        let mut sources = Vec::new();
        if ports.masq_all {
            sources.push(String::new());
        } else {
            sources.push(address_match("-s", &address.trunc()));
            if Family::of(address) == Family::V4 {
                sources.push("-s 127.0.0.1/32 ".to_owned());
            }
        }
        let mark = |source| Rule::new(chain, format!("{source}{port} -j {set_mark}"));
        rules.extend(sources.into_iter().map(mark));
    }
    let to = match address.addr() {
        IpAddr::V4(ip) => format!("{ip}:{}", mapping.container_port),
        IpAddr::V6(ip) => format!("[{ip}]:{}", mapping.container_port),
    };
    rules.push(Rule::new(
        chain,
        format!("{port} -j DNAT --to-destination {to}"),
    ));
    rules
}

/// The port that a rule forwards; `None` for any other rule.
pub fn read(rule: &Rule) -> Option<Mapping> {
    let to = rule.value_of("--to-destination")?;
    let host_ip = match rule.value_of("-d") {
        Some(net) => Some(net.parse::<IpNet>().ok()?.addr()),
        None => None,
    };
    Some(Mapping {
        host_port: rule.value_of("--dport")?.parse().ok()?,
        container_port: to.rsplit_once(':')?.1.parse().ok()?,
        protocol: Protocol::parse(&rule.value_of("-p")?)?,
        host_ip,
    })
}

/// The address that a rule forwards to; `None` for any other rule.
pub fn target(rule: &Rule) -> Option<IpAddr> {
    let to = rule.value_of("--to-destination")?;
    let (address, _) = to.rsplit_once(':')?;
    address.trim_matches(['[', ']']).parse().ok()
}

#[cfg(test)]
mod tests;
