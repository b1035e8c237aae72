//! Whether the ranges of a cluster go together.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{Cluster, range};

/// The three ranges that must not overlap.
pub const RULE: &str = "pod,service,node";

/// Pod, service and node ranges that are looked at together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// The ranges, each with what it is for.
    ranges: Vec<(Use, IpNet)>,
    /// Nodes' addresses, each with its node.
    addresses: Vec<(String, IpAddr)>,
}

/// What a range is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Pods.
    Pod,
    /// Services.
    Service,
    /// The nodes' own addresses.
    Node,
}

impl Use {
    fn as_str(self) -> &'static str {
        match self {
            Use::Pod => "pod",
            Use::Service => "service",
            Use::Node => "node",
        }
    }
}

/// What is wrong with a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// Which ranges, in what.
    pub said: String,
}

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Two ranges share addresses, or one has some that no cluster can use.
    Overlap,
    /// A node's address is in none of the node ranges.
    Outside,
    /// The service ranges have fewer addresses than asked.
    Short,
}

impl Case {
    /// Reads `NAME=POD,SERVICE,NODE`.
    ///
    /// # Errors
    /// It is not of that form; a range is none.
    pub fn parse(text: &str) -> Result<Case, String> {
        let form = || format!("{text:?} is no case: expected NAME=POD,SERVICE,NODE");
        let (name, ranges) = text.split_once('=').ok_or_else(form)?;
        let parts: Vec<&str> = ranges.split(',').collect();
        let [pod, service, node] = parts[..] else {
            return Err(form());
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(form());
        }
        let read = |what: Use, text: &str| {
            let range = range::parse(text.trim());
            range
                .map(|range| (what, range))
                .map_err(|reason| format!("{name}, {} range: {reason}", what.as_str()))
        };
        Ok(Case {
            name: name.to_owned(),
            ranges: vec![
                read(Use::Pod, pod)?,
                read(Use::Service, service)?,
                read(Use::Node, node)?,
            ],
            addresses: Vec::new(),
        })
    }

    /// The ranges of a cluster, and its nodes' addresses.
    pub fn of(cluster: &Cluster) -> Case {
        let pods = cluster.pods.iter().map(|pods| (Use::Pod, pods.range));
        let services = cluster.services.iter().map(|range| (Use::Service, *range));
        let nodes = cluster
            .node_networks
            .iter()
            .map(|range| (Use::Node, *range));
        let addresses = cluster.nodes.iter().flat_map(|node| {
            let of_node = |address: &IpAddr| (node.name.clone(), *address);
            node.addresses.iter().map(of_node)
        });
        Case {
            name: "cluster".to_owned(),
            ranges: pods.chain(services).chain(nodes).collect(),
            addresses: addresses.collect(),
        }
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Everything that is wrong; `services` is how many addresses are asked of the service range.
    pub fn findings(&self, services: Option<u128>) -> Vec<Finding> {
        let mut findings = self.overlaps();
        findings.extend(self.special());
        findings.extend(self.stray_addresses());
        findings.extend(services.and_then(|asked| self.short(asked)));
        findings
    }

    fn overlaps(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (index, (what, range)) in self.ranges.iter().enumerate() {
            let before = self.ranges.iter().take(index);
            for (other, earlier) in before.filter(|(other, _)| other != what) {
                if let Some(shared) = range::shared(*earlier, *range) {
                    findings.push(Finding {
                        kind: Kind::Overlap,
                        said: format!(
                            "the {} range {earlier} and the {} range {range} overlap in {shared}",
                            other.as_str(),
                            what.as_str()
                        ),
                    });
                }
            }
        }
        findings
    }

    fn special(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (what, range) in &self.ranges {
            for (special, name) in range::special() {
                if let Some(shared) = range::shared(*range, special) {
                    findings.push(Finding {
                        kind: Kind::Overlap,
                        said: format!(
                            "the {} range {range} reaches into {name} ({special}) in {shared}",
                            what.as_str()
                        ),
                    });
                }
            }
        }
        findings
    }

    /// Nodes' addresses that are in a range of pods or services, or in none of the nodes'.
    fn stray_addresses(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (node, address) in &self.addresses {
            let holds =
                |(what, range): &&(Use, IpNet)| *what != Use::Node && range.contains(address);
            if let Some((what, range)) = self.ranges.iter().find(holds) {
                findings.push(Finding {
                    kind: Kind::Overlap,
                    said: format!(
                        "the address {address} of node {node} is in the {} range {range}",
                        what.as_str()
                    ),
                });
            }
            let family = |(what, range): &&(Use, IpNet)| {
                *what == Use::Node && range.addr().is_ipv4() == address.is_ipv4()
            };
            let networks: Vec<String> = self
                .ranges
                .iter()
                .filter(family)
                .map(|(_, range)| *range)
                .filter(|range| !range.contains(address))
                .map(|range| range.to_string())
                .collect();
            let all = self.ranges.iter().filter(family).count();
            if all > 0 && networks.len() == all {
                findings.push(Finding {
                    kind: Kind::Outside,
                    said: format!(
                        "the address {address} of node {node} is outside of the node range {}",
                        networks.join(",")
                    ),
                });
            }
        }
        findings
    }

    fn short(&self, asked: u128) -> Option<Finding> {
        let services = self.ranges.iter().filter(|(what, _)| *what == Use::Service);
        let (size, range) = services
            .map(|(_, range)| (range::size(*range), *range))
            .min()?;
        (size < asked).then(|| Finding {
            kind: Kind::Short,
            said: format!("the service range {range} has {size} addresses, and {asked} are asked"),
        })
    }
}

/// Cases with what is wrong with each.
pub type Looked = Vec<(Case, Vec<Finding>)>;

fn verdict(findings: &[Finding]) -> &'static str {
    let overlaps = findings.iter().any(|finding| finding.kind == Kind::Overlap);
    match findings.first() {
        None => "ok",
        Some(_) if overlaps => "overlap",
        Some(Finding { kind, .. }) => match kind {
            Kind::Overlap => "overlap",
            Kind::Outside => "outside",
            Kind::Short => "short",
        },
    }
}

/// A line for each case, then the rule.
pub fn text(looked: &Looked) -> String {
    let line =
        |(case, findings): &(Case, Vec<Finding>)| format!("{}={}\n", case.name, verdict(findings));
    let mut text: String = looked.iter().map(line).collect();
    text.push_str(&format!("rule={RULE}\n"));
    text
}

/// Each case with its findings, and the rule.
pub fn to_json(looked: &Looked) -> Value {
    let case = |(case, findings): &(Case, Vec<Finding>)| {
        let said: Vec<_> = findings.iter().map(|finding| &finding.said).collect();
        json!({ "name": case.name, "verdict": verdict(findings), "findings": said })
    };
    json!({ "cases": looked.iter().map(case).collect::<Vec<_>>(), "rule": RULE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn said(case: &Case, services: Option<u128>) -> (String, Vec<String>) {
        let findings = case.findings(services);
        let verdict = verdict(&findings).to_owned();
        (
            verdict,
            findings.into_iter().map(|finding| finding.said).collect(),
        )
    }

    #[test]
    fn cases() {
        for (text, verdict, expected) in [
            (
                "p1=10.244.0.0/16,10.96.0.0/16,192.168.10.0/24",
                "ok",
                vec![],
            ),
            (
                "p2=10.96.0.0/12,10.96.0.0/16,192.168.10.0/24",
                "overlap",
                vec![
                    "the pod range 10.96.0.0/12 and the service range 10.96.0.0/16 overlap in \
                     10.96.0.0/16",
                ],
            ),
            (
                "p3=10.244.0.0/16,10.245.0.0/16,10.244.3.0/24",
                "overlap",
                vec![
                    "the pod range 10.244.0.0/16 and the node range 10.244.3.0/24 overlap in \
                     10.244.3.0/24",
                ],
            ),
            (
                "p4=172.16.0.0/16,10.96.0.0/16,192.168.10.0/24",
                "ok",
                vec![],
            ),
            ("six=fd00::/48,fd00:1::/108,fd00:2::/64", "ok", vec![]),
            (
                "six=fd00::/48,fd00:0:0:7::/108,fd00:0:0:7::/64",
                "overlap",
                vec![
                    "the pod range fd00::/48 and the service range fd00:0:0:7::/108 overlap in \
                     fd00:0:0:7::/108",
                    "the pod range fd00::/48 and the node range fd00:0:0:7::/64 overlap in \
                     fd00:0:0:7::/64",
                    "the service range fd00:0:0:7::/108 and the node range fd00:0:0:7::/64 overlap \
                     in fd00:0:0:7::/108",
                ],
            ),
            (
                "s=127.0.0.0/16,169.254.8.0/24,192.0.0.0/2",
                "overlap",
                vec![
                    "the pod range 127.0.0.0/16 reaches into loopback (127.0.0.0/8) in 127.0.0.0/16",
                    "the service range 169.254.8.0/24 reaches into link-local (169.254.0.0/16) in \
                     169.254.8.0/24",
                    "the node range 192.0.0.0/2 reaches into multicast (224.0.0.0/4) in 224.0.0.0/4",
                ],
            ),
        ] {
            let (found, told) = said(&Case::parse(text).unwrap(), None);
            assert_eq!(
                (found.as_str(), told),
                (verdict, expected.iter().map(|t| (*t).to_owned()).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_case() {
        for (text, expected) in [
            ("p1", "\"p1\" is no case: expected NAME=POD,SERVICE,NODE"),
            (
                "=10.0.0.0/8,10.0.0.0/8,10.0.0.0/8",
                "expected NAME=POD,SERVICE,NODE",
            ),
            ("p=10.0.0.0/8,11.0.0.0/8", "expected NAME=POD,SERVICE,NODE"),
            (
                "p=10.0.0.1/8,11.0.0.0/8,12.0.0.0/8",
                "p, pod range: \"10.0.0.1/8\" has bits set beyond its prefix: 10.0.0.0/8 was probably",
            ),
            (
                "p=10.0.0.0/8,x,12.0.0.0/8",
                "p, service range: \"x\" is no range",
            ),
        ] {
            let error = Case::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_cluster() {
        let case = |text: &str| {
            let document = Document::parse("c", text).unwrap();
            Case::of(&Cluster::new(document.read().unwrap()).unwrap())
        };
        let good = "podSubnet: 10.244.0.0/16,fd00::/48
serviceSubnet: 10.96.0.0/16,fd01::/108
nodeSubnet: [192.168.10.0/24, 192.168.20.0/24, 'fd02::/64']
nodes:
- {name: a, address: '192.168.20.7,fd02::7'}
";
        assert_eq!(said(&case(good), Some(65536)), ("ok".to_owned(), vec![]));
        let (verdict, told) = said(&case(good), Some(65537));
        assert_eq!(verdict, "short");
        assert_eq!(
            told,
            ["the service range 10.96.0.0/16 has 65536 addresses, and 65537 are asked"]
        );
        let stray = case(&good.replace("192.168.20.7", "192.168.30.7"));
        assert_eq!(
            said(&stray, None),
            (
                "outside".to_owned(),
                vec![
                    "the address 192.168.30.7 of node a is outside of the node range \
                     192.168.10.0/24,192.168.20.0/24"
                        .to_owned()
                ]
            )
        );
        let inside = case("podSubnet: 10.244.0.0/16\nnodes: [{name: a, address: 10.244.1.1}]");
        let (verdict, told) = said(&inside, None);
        assert_eq!(verdict, "overlap");
        assert_eq!(
            told,
            ["the address 10.244.1.1 of node a is in the pod range 10.244.0.0/16"]
        );
    }
}
