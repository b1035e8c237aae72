//! This node's conflist: what it should be, and why it is not written yet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use node::{Network, Node};
use plan::conflist::{self, Types};
use plan::{Cluster, range};
use serde_json::Value;

use crate::{Finding, Reason};

/// How many containers a message names.
const NAMED: usize = 5;

/// The conflist of this node's ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflist {
    /// Its file.
    pub file: PathBuf,
    /// What is to be in it; empty where that is not known yet.
    pub text: String,
    /// What becomes of it.
    pub step: Step,
    /// Addresses of former ranges on the bridge, each with the index of its link: they go with the
    /// former conflist.
    pub former: Vec<(u32, IpNet)>,
}

/// What becomes of the conflist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is as it should be.
    Keep,
    /// It is written.
    Write,
    /// It stays as it is, or away: a finding says what is waited for.
    Wait,
}

/// What is wanted of a conflist.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// This node's name.
    pub own: &'a str,
    /// Its ranges.
    pub ranges: &'a [IpNet],
    /// What the pod network can do.
    pub cluster: &'a Cluster,
    /// Which names the plugins have.
    pub types: Types,
    /// The MTU of the links to the other nodes, where it is known.
    pub mtu: Option<u32>,
    /// The folder of reservations, where that is another than the plugin's own.
    pub data: Option<&'a Path>,
    /// The file.
    pub file: &'a Path,
}

impl Wanted<'_> {
    /// Compares it with what is there: the node, and the text of its file. Findings say what is waited
    /// for.
    pub fn against(&self, node: &Node, found: Option<&str>) -> (Conflist, Vec<Finding>) {
        let mut conflist = Conflist {
            file: self.file.to_owned(),
            text: String::new(),
            step: Step::Wait,
            former: Vec::new(),
        };
        // Why there is none is found already, with the ranges.
        if self.ranges.is_empty() {
            return (conflist, Vec::new());
        }
        conflist.text = self.text();
        if found == Some(&conflist.text) {
            conflist.step = Step::Keep;
            return (conflist, Vec::new());
        }
        let former = found.map(subnets).unwrap_or_default();
        let former: Vec<IpNet> = former
            .into_iter()
            .filter(|former| !self.ranges.contains(former))
            .collect();
        if let Some(finding) = self.held(node, &former) {
            return (conflist, vec![finding]);
        }
        conflist.step = Step::Write;
        if let Some(bridge) = node.link(&self.cluster.bridge) {
            let gateways = former.iter().filter_map(|former| {
                IpNet::new(range::first_usable(*former), former.prefix_len()).ok()
            });
            let gateways: Vec<IpNet> = gateways.collect();
            let there = node.addresses_of(bridge.index).map(|address| address.net);
            let there = there.filter(|net| gateways.contains(net));
            conflist.former = there.map(|net| (bridge.index, net)).collect();
        }
        (conflist, Vec::new())
    }

    fn text(&self) -> String {
        let mut cluster = self.cluster.clone();
        cluster.mtu = cluster.mtu.or(self.mtu);
        let mut list = conflist::conflist(&cluster, self.ranges, self.types);
        if let Some(data) = self.data {
            list["plugins"][0]["ipam"]["dataDir"] = data.to_string_lossy().into();
        }
        conflist::text(&list)
    }

    /// Why the ranges cannot be exchanged yet: pods hold addresses of the former ones.
    fn held(&self, node: &Node, former: &[IpNet]) -> Option<Finding> {
        if former.is_empty() {
            return None;
        }
        let own = self.own;
        let finding = |message: String| Some(Finding::new(own, Reason::PodRangeChanged, message));
        let texts = |ranges: &[IpNet]| {
            let texts: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            texts.join(", ")
        };
        let (before, now) = (texts(former), texts(self.ranges));
        let of_file = |network: &&Network| network.file == self.file;
        let network = node.networks.iter().find(of_file);
        let Some(reservations) = network.and_then(|network| network.reservations.as_ref()) else {
            return finding(format!(
                "the pod range was {before} and is {now} now; which pods hold addresses of the former \
                 one cannot be read, so the conflist stays as it is: see `podnet doctor`"
            ));
        };
        let held = reservations.iter().filter(|one| {
            let mut former = former.iter();
            former.any(|former| former.contains(&one.address))
        });
        let pods: BTreeSet<&str> = held.map(|one| one.container_id.as_str()).collect();
        if pods.is_empty() {
            return None;
        }
        let named: Vec<&str> = pods.iter().copied().take(NAMED).collect();
        let more = if pods.len() > NAMED { ", …" } else { "" };
        finding(format!(
            "the pod range was {before} and is {now} now, and {} pods hold addresses of the former one \
             ({}{more}): the conflist stays as it is until they are gone; `kubectl drain {own} \
             --ignore-daemonsets` and delete the DaemonSets' pods there, then it is exchanged by itself",
            pods.len(),
            named.join(", ")
        ))
    }
}

/// The ranges that a file gives addresses of; none where it cannot be read.
fn subnets(text: &str) -> Vec<IpNet> {
    let list: Value = serde_json::from_str(text).unwrap_or_default();
    conflist::subnets(&list)
}
