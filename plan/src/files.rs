//! A whole plan as files.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::capacity::Capacity;
use crate::conflist::{self, Types};
use crate::overlap::{self, Case, Finding};
use crate::routes::{Format, Routes, Written};
use crate::{Cluster, Fault, Plan, page, podcidrs, report, taints};

/// The file that a later run keeps the ranges of.
pub const RANGES: &str = "podcidrs.txt";
/// The cluster with every range fixed.
pub const CLUSTER: &str = "cluster.json";
/// The folder of the nodes' own folders.
pub const NODES: &str = "nodes";

/// How a file begins that is run: it ends at the first command that fails.
const SCRIPT: &str = "#!/bin/sh\nset -e\n";

/// What a plan is written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which names the plugins have.
    pub types: Types,
    /// What each node's routes are for.
    pub formats: Vec<Format>,
}

/// A plan that all files can be made of.
#[derive(Debug)]
pub struct Files<'a> {
    plan: &'a Plan,
    wanted: &'a Wanted,
    capacity: Capacity,
    case: Case,
    findings: Vec<Finding>,
    cloud: Written,
    /// For each format, by the nodes' own interfaces.
    routes: Vec<(Format, HashMap<Option<&'a str>, Written>)>,
}

impl<'a> Files<'a> {
    /// Makes what all files have in common.
    ///
    /// # Errors
    /// A node's routes cannot be written.
    pub fn new(plan: &'a Plan, wanted: &'a Wanted) -> Result<Files<'a>, Fault> {
        let all = Routes::of(plan)?;
        let mut routes = Vec::new();
        for format in &wanted.formats {
            let mut by_device = HashMap::new();
            for (node, _) in plan.nodes() {
                let device = node.device.as_deref();
                if let std::collections::hash_map::Entry::Vacant(new) = by_device.entry(device) {
                    new.insert(Written::new(&all, *format, device)?);
                }
            }
            routes.push((*format, by_device));
        }
        let case = Case::of(&plan.cluster);
        Ok(Files {
            capacity: Capacity::of(&plan.cluster)?,
            findings: case.findings(None),
            case,
            cloud: Written::new(&all, Format::Gcloud, None)?,
            plan,
            wanted,
            routes,
        })
    }

    /// What is wrong with the ranges.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many nodes have files.
    pub fn nodes(&self) -> usize {
        self.plan.cluster.nodes.len()
    }

    /// Gives each file that is no node's to `put`: its path, and its content in pieces. That of the
    /// ranges is the first, since all others can be made again of it.
    ///
    /// # Errors
    /// Those of `put`; it is not called again then.
    pub fn common<E>(&self, mut put: impl FnMut(&str, &[&str]) -> Result<(), E>) -> Result<(), E> {
        let Files { plan, .. } = self;
        put(RANGES, &[&podcidrs::file(plan)])?;
        put("README.md", &[&self.readme()])?;
        put("patch-nodes.sh", &[SCRIPT, &podcidrs::patches(plan)])?;
        put("capacity.txt", &[&self.capacity.text(true)])?;
        let looked = vec![(self.case.clone(), self.findings.clone())];
        put("overlap.txt", &[&overlap::text(&looked)])?;
        let report = report::report(plan, &self.capacity, &self.findings);
        put("report.md", &[&report])?;
        let page = page::page(plan, &self.capacity, &self.findings);
        put("report.html", &[&page])?;
        put(CLUSTER, &[&format!("{:#}\n", keys(plan))])?;
        put_routes(Format::Gcloud, "", &self.cloud, usize::MAX, &mut put)?;
        for node in &plan.cluster.kept_back {
            let path = format!("kept-back/{}.yaml", node.name.0);
            put(&path, &[&taints::manifest(node)])?;
        }
        Ok(())
    }

    /// Gives each file of some of the nodes to `put`, as [`Files::common`] does. Those of different
    /// nodes can be made by different threads.
    ///
    /// # Errors
    /// Those of `put`; it is not called again then.
    pub fn of_nodes<E>(
        &self,
        places: Range<usize>,
        mut put: impl FnMut(&str, &[&str]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Files { plan, .. } = self;
        let conflist = conflist_name(&plan.cluster);
        let nodes = plan.nodes().enumerate();
        for (place, (node, ranges)) in nodes.skip(places.start).take(places.len()) {
            let list = conflist::conflist(&plan.cluster, ranges, self.wanted.types);
            let folder = format!("{NODES}/{}/", node.name);
            put(&format!("{folder}{conflist}"), &[&conflist::text(&list)])?;
            for (format, by_device) in &self.routes {
                if let Some(written) = by_device.get(&node.device.as_deref()) {
                    put_routes(*format, &folder, written, place, &mut put)?;
                }
            }
        }
        Ok(())
    }

    fn readme(&self) -> String {
        let conflist = conflist_name(&self.plan.cluster);
        let mut text = format!(
            "# Pod network {}

Where each file goes. `nodes/NAME/` is for the node of that name alone: the files of two nodes differ.

| file | where it goes |
|---|---|
| `nodes/NAME/{conflist}` | on the node, `/etc/cni/net.d/{conflist}` |
",
            self.plan.cluster.network
        );
        for (format, _) in &self.routes {
            let (file, place) = file_of(*format);
            text.push_str(&format!("| `nodes/NAME/{file}` | {place} |\n"));
        }
        if !self.plan.cluster.kept_back.is_empty() {
            text.push_str("| `kept-back/NAME.yaml` | `kubectl apply -f`, once, for a node that is to wait for its plugins |\n");
        }
        text.push_str(REST);
        text
    }
}

/// Gives the file of a format to `put`; one that is a script gets its beginning.
fn put_routes<E>(
    format: Format,
    folder: &str,
    written: &Written,
    place: usize,
    put: &mut impl FnMut(&str, &[&str]) -> Result<(), E>,
) -> Result<(), E> {
    let (name, _) = file_of(format);
    let begin = if name.ends_with(".sh") { SCRIPT } else { "" };
    let [head, before, after, tail] = written.without(place);
    put(
        &format!("{folder}{name}"),
        &[begin, head, before, after, tail],
    )
}

/// What is the same in every README.
const REST: &str = "\
| `patch-nodes.sh` | `sh`, once, where no controller sets the nodes' pod ranges; what is set stays |
| `gcloud-routes.sh` | `sh`, once, instead of the nodes' routes, where the cloud's network is to have them |
| `cluster.json` | stays: the cluster with every range fixed, for `podnet -f` from now on |
| `podcidrs.txt` | stays: a later `podnet plan write` into this folder keeps these ranges |
| `capacity.txt`, `overlap.txt`, `report.md`, `report.html` | to be read; the last one in a browser |

Each script ends at the first command that fails. Copy the conflist last: a node is ready for pods from
then on.
";

/// The file of a format, and where it goes.
fn file_of(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Iproute2 => ("routes.sh", "on the node, `sh` as root; after a boot again"),
        Format::Netplan => (
            "60-pod-routes.yaml",
            "on the node, `/etc/netplan/60-pod-routes.yaml` (mode 600), then `netplan apply`",
        ),
        Format::Networkd => (
            "pod-routes.conf",
            "on the node, `/etc/systemd/network/FILE.d/pod-routes.conf`, where FILE is the interface's \
             `.network` file, then `networkctl reload`",
        ),
        Format::NetworkManager => ("pod-routes-nmcli.sh", "on the node, `sh` as root, once"),
        Format::Gcloud => ("gcloud-routes.sh", "`sh`, once"),
        Format::Json => ("routes.json", "to be read by programs"),
    }
}

fn conflist_name(cluster: &Cluster) -> String {
    format!("10-{}.conflist", cluster.network)
}

/// The cluster file that says all of a plan: every range is fixed.
pub fn keys(plan: &Plan) -> Value {
    let cluster = &plan.cluster;
    let features = &cluster.features;
    let ranges: Vec<_> = cluster.pods.iter().map(|pods| pods.range).collect();
    let prefixes: Vec<_> = cluster.pods.iter().map(|pods| pods.node_prefix).collect();
    let nodes = plan.nodes().map(|(node, ranges)| {
        without_nulls(json!({
            "name": node.name,
            "address": node.addresses,
            "podCIDR": ranges,
            "maxPods": node.pod_limit,
            "device": node.device,
        }))
    });
    let kept_back = cluster.kept_back.iter();
    let kept_back = kept_back.map(|node| json!({ "name": node.name.0, "taint": node.taint.0 }));
    without_nulls(json!({
        "podSubnet": ranges,
        "nodePrefix": prefixes,
        "serviceSubnet": cluster.services,
        "nodeSubnet": cluster.node_networks,
        "maxPods": cluster.pod_limit,
        "network": cluster.network,
        "cloudNetwork": cluster.cloud_network,
        "bridge": cluster.bridge,
        "mtu": cluster.mtu,
        "features": {
            "portMappings": features.port_mappings,
            "bandwidth": features.bandwidth,
            "ipMasq": features.ip_masq,
            "hairpinMode": features.hairpin_mode,
            "rootless": features.rootless,
        },
        "nodes": nodes.collect::<Vec<_>>(),
        "keptBack": kept_back.collect::<Vec<_>>(),
    }))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let there = object.into_iter().filter(|(_, value)| !value.is_null());
            there.collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
