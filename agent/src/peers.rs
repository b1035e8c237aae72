//! What follows for this node's routes from what is told of all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use node::routes::PROTOCOL;
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

/// How many ranges or addresses of a node are looked at: it can have two.
const MOST: usize = 16;

/// Family and number.
fn key_of(address: IpAddr) -> (bool, u128) {
    (address.is_ipv4(), range::number(address))
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

/// Where what is told is looked at.
#[derive(Debug)]
pub struct Here<'a> {
    /// This node's name.
    pub own: &'a str,
    /// The ranges of all pods, where they are known.
    pub pods: &'a [IpNet],
    /// What is on this node.
    pub node: &'a Node,
    /// The name of its bridge.
    pub bridge: &'a str,
    /// The API's own addresses.
    pub api: &'a [IpAddr],
}

/// What all nodes are looked at with.
struct Sorting<'a> {
    here: &'a Here<'a>,
    /// The addresses of all nodes, by family and number: whose, and how many nodes are older.
    of_nodes: BTreeMap<(bool, u128), (&'a str, usize)>,
    taken: Taken<'a>,
    needed: Vec<Needed>,
    findings: Vec<Finding>,
}

/// An address without which this node is cut off.
struct Needed {
    address: IpAddr,
    what: &'static str,
    /// Where packets go by it, where it is a router's.
    leads_to: Option<IpNet>,
    /// Whether it is this machine's own.
    is_own: bool,
}

impl Peers {
    /// Sorts out what is told.
    ///
    /// Of nodes whose ranges overlap the one that was there first keeps its route, so that neither
    /// flaps and no newcomer takes traffic away; the other has none, and both are named. Where that is
    /// this node, it has no usable range. Nothing leads to what overlaps its own ranges in any case.
    pub fn new(told: &[Told], here: &Here) -> Peers {
        let own = here.own;
        let mut findings = Vec::new();
        let named: Vec<&Told> = told
            .iter()
            .filter(|told| is_named(told, &mut findings))
            .collect();
        let mut all: Vec<Candidate> = named
            .into_iter()
            .map(|told| candidate(told, here.pods, &mut findings))
            .collect();
        all.sort_by(|a, b| {
            let (a, b) = (a.told, b.told);
            a.since
                .cmp(&b.since)
                .then_with(|| natural(&a.name, &b.name))
        });
        let mut sorting = Sorting {
            here,
            of_nodes: BTreeMap::new(),
            taken: Taken::default(),
            needed: here.needed(),
            findings,
        };
        sorting.note_addresses(&all);
        let mut peers = Peers::default();
        for (rank, one) in all.iter().enumerate() {
            let ranges = sorting.usable(one, rank);
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

/// The API takes no other names; whatever tells of one is no API.
fn is_named(told: &Told, findings: &mut Vec<Finding>) -> bool {
    let wrong = plan::check_node(&told.name).err();
    let wrong = wrong.map(|reason| Finding::new(&told.name, Reason::BadName, reason));
    let is_named = wrong.is_none();
    findings.extend(wrong);
    is_named
}

/// What of a node can be read, of as much as one can have.
fn candidate<'a>(told: &'a Told, pods: &[IpNet], findings: &mut Vec<Finding>) -> Candidate<'a> {
    let name = &told.name;
    let mut ranges: Vec<IpNet> = Vec::new();
    let more = |what: &str, count: usize| {
        format!("node {name} has {count} {what}: only the first {MOST} are looked at")
    };
    if told.ranges.len() > MOST {
        let message = more("ranges in spec.podCIDRs", told.ranges.len());
        findings.push(Finding::new(name, Reason::BadPodRange, message));
    }
    if told.addresses.len() > MOST {
        let message = more("InternalIPs", told.addresses.len());
        findings.push(Finding::new(name, Reason::BadAddress, message));
    }
    for text in told.ranges.iter().take(MOST) {
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
    for text in told.addresses.iter().take(MOST) {
        let wrong = match text.parse::<IpAddr>() {
            Err(_) => Some("no address"),
            Ok(address) => {
                let is_pods = pods.iter().any(|pods| pods.contains(&address));
                let wrong = range::no_next_hop(address);
                let wrong = wrong.or_else(|| is_pods.then_some("in the ranges of all pods"));
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

impl Here<'_> {
    /// The bridge's own network is of pods, and of nobody else.
    fn is_bridge(&self, index: u32) -> bool {
        let bridge = self.node.link(self.bridge);
        bridge.is_some_and(|bridge| bridge.index == index)
    }

    /// Whether an address is this machine's or in a network that it is in.
    fn is_beside(&self, address: IpAddr) -> bool {
        let link = self.node.on_link(address);
        self.node.has(address) || link.is_some_and(|index| !self.is_bridge(index))
    }

    /// What this node needs beside other nodes.
    fn needed(&self) -> Vec<Needed> {
        let api = self.api.iter().map(|address| Needed {
            address: *address,
            what: "the API's address",
            leads_to: None,
            is_own: false,
        });
        let routes = self.node.main_routes();
        let routes =
            routes.filter(|entry| entry.protocol != PROTOCOL && !self.is_bridge(entry.route.index));
        let routers = routes.filter_map(|entry| {
            Some(Needed {
                address: entry.route.gateway?,
                what: "a router's address",
                leads_to: Some(entry.route.dst),
                is_own: false,
            })
        });
        let own = self.node.addresses.iter();
        let own = own.filter(|(index, _)| !self.is_bridge(*index));
        let own = own.map(|(_, address)| Needed {
            address: address.net.addr(),
            what: "an address of this machine",
            leads_to: None,
            is_own: true,
        });
        api.chain(routers).chain(own).collect()
    }
}

impl Needed {
    /// Whether a range takes it in. A router to the range itself is another's route to the same pods; and of the
    /// own range a former network may have left an address on a link.
    fn is_in(&self, range: IpNet, is_of_own: bool) -> bool {
        let is_to_it = self.leads_to.is_some_and(|dst| range.contains(&dst));
        range.contains(&self.address) && !is_to_it && !(self.is_own && is_of_own)
    }
}

impl<'a> Sorting<'a> {
    fn found(&mut self, node: &str, reason: Reason, message: String) {
        self.findings.push(Finding::new(node, reason, message));
    }

    fn note_addresses(&mut self, all: &[Candidate<'a>]) {
        let mut shared = BTreeSet::new();
        for (rank, one) in all.iter().enumerate() {
            for address in &one.addresses {
                let key = key_of(*address);
                let (before, _) = self.of_nodes.entry(key).or_insert((&one.told.name, rank));
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
    fn usable(&mut self, one: &Candidate<'a>, rank: usize) -> Vec<IpNet> {
        let mut usable = Vec::new();
        for range in &one.ranges {
            if self.is_outside(one, *range)
                || self.holds_nodes(one, rank, *range)
                || self.cuts_off(one, *range)
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
        if !self.here.pods.is_empty() && !self.here.pods.iter().any(is_within) {
            let pods: Vec<_> = self.here.pods.iter().map(ToString::to_string).collect();
            let message = format!(
                "{range} of node {name} is outside of the ranges of all pods, {}: no route leads to it",
                pods.join(", ")
            );
            self.found(name, Reason::BadPodRange, message);
            return true;
        }
        let longest = range.max_prefix_len().saturating_sub(2);
        if *name == self.here.own && range.prefix_len() > longest {
            let message =
                format!("{range} has no address for a pod: the prefix is at most {longest}");
            self.found(name, Reason::BadPodRange, message);
            return true;
        }
        false
    }

    /// A route to such a range would lead astray what nodes say to each other. But no newcomer takes an older
    /// node's route away by an address that nobody here can reach without it.
    fn holds_nodes(&mut self, one: &Candidate, rank: usize, range: IpNet) -> bool {
        let (first, last) = range::bounds(range);
        let ipv4 = range.addr().is_ipv4();
        let name = &one.told.name;
        let inside: Vec<_> = self
            .of_nodes
            .range((ipv4, first)..=(ipv4, last))
            .map(|((_, number), (whose, since))| {
                let address = range::nth(range, number.saturating_sub(first));
                (address, *whose, *since)
            })
            .collect();
        let counts = |(address, _, since): &&(IpAddr, &str, usize)| {
            *since <= rank || self.here.is_beside(*address)
        };
        if let Some((address, whose, _)) = inside.iter().find(counts) {
            let message = format!(
                "{range} of node {name} holds {address}, the address of node {whose}: no route leads to \
                 it; a Node's range cannot be changed, it must be deleted and registered again"
            );
            self.found(name, Reason::PodRangeHoldsNodes, message);
            return true;
        }
        for (address, whose, _) in inside {
            let message = format!(
                "InternalIP {address} of node {whose} is in {range}, the pod range of the older node \
                 {name}, which keeps its route"
            );
            self.found(whose, Reason::BadAddress, message);
        }
        false
    }

    /// Nor does one lead to what this node itself needs.
    fn cuts_off(&mut self, one: &Candidate, range: IpNet) -> bool {
        let name = &one.told.name;
        let is_of_own = *name == self.here.own;
        let mut needed = self.needed.iter();
        let Some(needed) = needed.find(|needed| needed.is_in(range, is_of_own)) else {
            return false;
        };
        let Needed { address, what, .. } = needed;
        let message = format!(
            "{range} of node {name} holds {address}, {what}: it is not used, since it would cut this node \
             off; give the ranges of all pods (--pod-cidr), and delete the Node"
        );
        self.found(name, Reason::PodRangeCutsOff, message);
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
        if self.here.node.has(via) {
            let message = format!(
                "InternalIP {via} of node {name} is an address of this machine, {}: no route leads to \
                 its pods {range}",
                self.here.own
            );
            self.found(name, Reason::AddressIsOurs, message);
            return None;
        }
        Some(via)
    }
}
