//! What follows for this node's routes from what is told of all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use node::{Node, Peer, Planned};
use plan::kubernetes::Told;
use plan::{natural, range};

use crate::{Finding, Reason};

/// What is told of all nodes, sorted out: what this one has, and the routes to the others. What is
/// wrong with one stops none of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers {
    /// This node's pod ranges, if they can be used.
    pub own: Vec<IpNet>,
    /// The same whether or not they can: nothing leads to them.
    pub given: Vec<IpNet>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The others, in the natural order of their names.
    pub others: Vec<Peer>,
    /// The routes to their ranges.
    pub planned: Vec<Planned>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// One node, as far as what is told of it can be used.
struct Candidate<'a> {
    told: &'a Told,
    ranges: Vec<IpNet>,
    addresses: Vec<IpAddr>,
}

impl Candidate<'_> {
    fn via(&self, range: IpNet) -> Option<IpAddr> {
        let ipv4 = range.addr().is_ipv4();
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| address.is_ipv4() == ipv4)
    }
}

/// Ranges that share no address, with whose they are.
#[derive(Default)]
struct Taken<'a>(BTreeMap<(bool, u128), (IpNet, &'a str)>);

impl<'a> Taken<'a> {
    fn key(range: IpNet) -> (bool, u128) {
        (range.addr().is_ipv4(), range::bounds(range).0)
    }

    /// The first that shares addresses with a range.
    fn overlapping(&self, range: IpNet) -> Option<(IpNet, &'a str)> {
        let start = Taken::key(range);
        let end = (start.0, range::bounds(range).1);
        // What begins before may reach into it; of those that share nothing only the last can.
        let before = self.0.range(..start).next_back();
        let inside = self.0.range(start..=end).next();
        let mut found = before.into_iter().chain(inside).map(|(_, taken)| *taken);
        found.find(|(taken, _)| range::shared(*taken, range).is_some())
    }

    fn take(&mut self, range: IpNet, node: &'a str) {
        self.0.insert(Taken::key(range), (range, node));
    }
}

/// What all nodes are looked at with.
struct Sorting<'a> {
    own: &'a str,
    pods: &'a [IpNet],
    node: &'a Node,
    /// The addresses of all nodes, by family and number.
    of_nodes: BTreeMap<(bool, u128), &'a str>,
    taken: Taken<'a>,
    findings: Vec<Finding>,
}

impl Peers {
    /// Sorts out what is told. `own` is this node's name, `pods` the ranges of all pods where they
    /// are known, `node` what is on it.
    ///
    /// Of nodes whose ranges overlap the one that was there first keeps its route, so that neither
    /// flaps and no newcomer takes traffic away; the other has none, and both are named. Where that is
    /// this node, it has no usable range. Nothing leads to what overlaps its own ranges in any case.
    pub fn new(told: &[Told], own: &str, pods: &[IpNet], node: &Node) -> Peers {
        let mut findings = Vec::new();
        let mut all: Vec<Candidate> = told
            .iter()
            .map(|told| candidate(told, &mut findings))
            .collect();
        all.sort_by(|a, b| {
            let (a, b) = (a.told, b.told);
            a.since
                .cmp(&b.since)
                .then_with(|| natural(&a.name, &b.name))
        });
        let mut sorting = Sorting {
            own,
            pods,
            node,
            of_nodes: BTreeMap::new(),
            taken: Taken::default(),
            findings,
        };
        sorting.note_addresses(&all);
        let mut peers = Peers::default();
        for one in &all {
            let ranges = sorting.usable(one);
            if one.told.name == own {
                peers.own = ranges;
                peers.given.clone_from(&one.ranges);
                peers.addresses.clone_from(&one.addresses);
                continue;
            }
            peers.others.push(Peer {
                name: one.told.name.clone(),
                addresses: one.addresses.clone(),
                ranges: ranges.clone(),
            });
            let planned = ranges.into_iter().filter_map(|range| {
                let via = sorting.next_hop(one, range)?;
                let to = one.told.name.clone();
                Some(Planned { range, via, to })
            });
            peers.planned.extend(planned);
        }
        if all.iter().all(|one| one.told.name != own) {
            let message = "the API knows no node of this name: the kubelet has not registered it, or \
                           --node-name (NODE_NAME) is another than the kubelet's";
            let finding = Finding::new(own, Reason::NodeUnknown, message);
            sorting.findings.push(finding);
        }
        let given = &peers.given;
        let is_own = |range: IpNet| given.iter().any(|own| range::shared(*own, range).is_some());
        peers.planned.retain(|planned| !is_own(planned.range));
        peers.others.sort_by(|a, b| natural(&a.name, &b.name));
        let by_name = |a: &Planned, b: &Planned| natural(&a.to, &b.to);
        peers.planned.sort_by(by_name);
        peers.findings = sorting.findings;
        peers.findings.sort();
        peers.findings.dedup();
        peers
    }
}

/// What of a node can be read.
fn candidate<'a>(told: &'a Told, findings: &mut Vec<Finding>) -> Candidate<'a> {
    let name = &told.name;
    let mut ranges: Vec<IpNet> = Vec::new();
    for text in &told.ranges {
        let read = range::parse(text).and_then(|range| fit(range, &ranges).map(|()| range));
        match read {
            Ok(range) => ranges.push(range),
            Err(reason) => {
                let message =
                    format!("spec.podCIDRs of node {name}: {reason}; no route leads to it");
                findings.push(Finding::new(name, Reason::BadPodRange, message));
            }
        }
    }
    if told.ranges.is_empty() {
        let message = format!(
            "node {name} has no spec.podCIDRs yet, and no pods of its own network until then: the \
             controller-manager gives it one with --allocate-node-cidrs, or a person by `podnet plan \
             podcidrs`"
        );
        findings.push(Finding::new(name, Reason::NoPodRange, message));
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in &told.addresses {
        let wrong = match text.parse::<IpAddr>() {
            Err(_) => Some("no address"),
            Ok(address) => {
                let wrong = range::no_next_hop(address);
                let mut before = addresses.iter();
                // Of a family the first counts, as for Kubernetes.
                if wrong.is_none() && before.all(|other| other.is_ipv4() != address.is_ipv4()) {
                    addresses.push(address);
                }
                wrong
            }
        };
        if let Some(what) = wrong {
            let message =
                format!("InternalIP {text:?} of node {name} is {what}: no route leads by it");
            findings.push(Finding::new(name, Reason::BadAddress, message));
        }
    }
    Candidate {
        told,
        ranges,
        addresses,
    }
}

/// Whether a node can have a range beside others of it.
fn fit(range: IpNet, others: &[IpNet]) -> Result<(), String> {
    if let Some((_, what)) =
        range::special().find(|(special, _)| range::shared(*special, range).is_some())
    {
        return Err(format!("{range} holds {what} addresses, and no pods"));
    }
    match others
        .iter()
        .find(|other| range::same_family(**other, range))
    {
        None => Ok(()),
        Some(other) => Err(format!(
            "{other} and {range} are of one family: expected one range, or one of each"
        )),
    }
}

impl<'a> Sorting<'a> {
    fn found(&mut self, node: &str, reason: Reason, message: String) {
        self.findings.push(Finding::new(node, reason, message));
    }

    fn note_addresses(&mut self, all: &[Candidate<'a>]) {
        let mut shared = BTreeSet::new();
        for one in all {
            for address in &one.addresses {
                let key = (address.is_ipv4(), range::number(*address));
                let before = self.of_nodes.entry(key).or_insert(&one.told.name);
                if *before != one.told.name {
                    shared.insert((*before, one.told.name.as_str(), *address));
                }
            }
        }
        for (first, second, address) in shared {
            let message = format!(
                "{address} is the InternalIP of both {first} and {second}: routes to the pods of both \
                 lead there; delete the Node that is no more"
            );
            self.found(first, Reason::AddressShared, message.clone());
            self.found(second, Reason::AddressShared, message);
        }
    }

    /// The ranges of a node that nothing speaks against; they are then taken.
    fn usable(&mut self, one: &Candidate<'a>) -> Vec<IpNet> {
        let mut usable = Vec::new();
        for range in &one.ranges {
            if self.is_outside(one, *range)
                || self.holds_nodes(one, *range)
                || self.overlaps(one, *range)
            {
                continue;
            }
            self.taken.take(*range, &one.told.name);
            usable.push(*range);
        }
        usable
    }

    fn is_outside(&mut self, one: &Candidate, range: IpNet) -> bool {
        let name = &one.told.name;
        let is_within = |pods: &IpNet| pods.contains(&range);
        if !self.pods.is_empty() && !self.pods.iter().any(is_within) {
            let pods: Vec<_> = self.pods.iter().map(ToString::to_string).collect();
            let message = format!(
                "{range} of node {name} is outside of the ranges of all pods, {}: no route leads to it",
                pods.join(", ")
            );
            self.found(name, Reason::BadPodRange, message);
            return true;
        }
        let longest = range.max_prefix_len().saturating_sub(2);
        if *name == self.own && range.prefix_len() > longest {
            let message =
                format!("{range} has no address for a pod: the prefix is at most {longest}");
            self.found(name, Reason::BadPodRange, message);
            return true;
        }
        false
    }

    /// A route to such a range would lead astray what nodes say to each other.
    fn holds_nodes(&mut self, one: &Candidate, range: IpNet) -> bool {
        let (first, last) = range::bounds(range);
        let ipv4 = range.addr().is_ipv4();
        let mut inside = self.of_nodes.range((ipv4, first)..=(ipv4, last));
        let name = &one.told.name;
        let Some((whose, address)) = inside
            .next()
            .map(|((_, number), whose)| (*whose, range::nth(range, number.saturating_sub(first))))
        else {
            return false;
        };
        let message = format!(
            "{range} of node {name} holds {address}, the address of node {whose}: no route leads to \
             it; a Node's range cannot be changed, it must be deleted and registered again"
        );
        self.found(name, Reason::PodRangeHoldsNodes, message);
        true
    }

    fn overlaps(&mut self, one: &Candidate, range: IpNet) -> bool {
        let name = &one.told.name;
        let Some((other, whose)) = self.taken.overlapping(range) else {
            return false;
        };
        let message = format!(
            "{range} of node {name} overlaps {other} of node {whose}, which keeps its routes: {name} \
             gets none; delete one of the two Nodes and let it register again"
        );
        self.found(name, Reason::PodRangeOverlaps, message.clone());
        self.found(whose, Reason::PodRangeOverlaps, message);
        true
    }

    /// The address by which a node's range is reached.
    fn next_hop(&mut self, one: &Candidate, range: IpNet) -> Option<IpAddr> {
        let name = &one.told.name;
        let family = range::family(range.addr());
        let Some(via) = one.via(range) else {
            let message = format!(
                "node {name} has no {family} InternalIP by which a route to its pods {range} could lead"
            );
            self.found(name, Reason::NoAddress, message);
            return None;
        };
        if self.node.has(via) {
            let message = format!(
                "InternalIP {via} of node {name} is an address of this machine, {}: no route leads to \
                 its pods {range}",
                self.own
            );
            self.found(name, Reason::AddressIsOurs, message);
            return None;
        }
        Some(via)
    }
}
