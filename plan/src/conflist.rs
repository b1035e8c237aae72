//! Each node's network configuration list (CNI specification, section "Configuration format").

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::keys::Features;
use crate::{Cluster, range};

/// The version of the specification: the newest that has no verb which runtimes of today lack.
const VERSION: &str = "1.0.0";

/// Which names the plugins have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// The reference plugins': `bridge`, `host-local`, …
    Standard,
    /// `bridge-lite`, `host-local-lite`, …
    Lite,
}

impl Types {
    fn name(self, plugin: &str) -> String {
        match self {
            Types::Standard => plugin.to_owned(),
            Types::Lite => format!("{plugin}-lite"),
        }
    }
}

/// The types behind the bridge in the chain, each with the capability that it is there for.
pub fn chained(features: &Features) -> Vec<(&'static str, &'static str)> {
    [
        (features.port_mappings, ("portmap", "portMappings")),
        (features.bandwidth, ("bandwidth", "bandwidth")),
    ]
    .into_iter()
    .filter(|(wanted, _)| *wanted)
    .map(|(_, plugin)| plugin)
    .collect()
}

/// The types of all plugins that a list of [`conflist`] names.
pub fn kinds(features: &Features, types: Types) -> Vec<String> {
    let chained = chained(features).into_iter().map(|(plugin, _)| plugin);
    let all = ["bridge", "host-local"].into_iter().chain(chained);
    all.map(|plugin| types.name(plugin)).collect()
}

/// The list of a node with these pod ranges, one of each of the cluster's.
pub fn conflist(cluster: &Cluster, ranges: &[IpNet], types: Types) -> Value {
    let features = &cluster.features;
    let mut bridge = json!({
        "type": types.name("bridge"),
        "bridge": cluster.bridge,
        "isGateway": true,
        "ipMasq": features.ip_masq,
        "hairpinMode": features.hairpin_mode,
    });
    if let Some(mtu) = cluster.mtu {
        bridge["mtu"] = mtu.into();
    }
    bridge["ipam"] = ipam(cluster, ranges, types);
    let chained = chained(features).into_iter().map(|(plugin, capability)| {
        json!({ "type": types.name(plugin), "capabilities": { capability: true } })
    });
    let plugins: Vec<Value> = std::iter::once(bridge).chain(chained).collect();
    json!({ "cniVersion": VERSION, "name": cluster.network, "plugins": plugins })
}

/// host-local: one range is written as every version of it reads it, two as range sets. The routes
/// lead out, and to the pods of all nodes; the latter stays right where another plugin or the pod
/// itself exchanges the default route.
fn ipam(cluster: &Cluster, ranges: &[IpNet], types: Types) -> Value {
    let range = |range: &IpNet| json!({ "subnet": range, "gateway": range::first_usable(*range) });
    let default = ranges.iter().map(|range| range::everything(*range));
    let pods = cluster.pods.iter().map(|pods| pods.range);
    let routes: Vec<_> = default
        .chain(pods)
        .map(|destination| json!({ "dst": destination }))
        .collect();
    let mut ipam = json!({ "type": types.name("host-local") });
    if let [one] = ranges {
        ipam["subnet"] = json!(one);
        ipam["gateway"] = json!(range::first_usable(*one));
    } else {
        let sets: Vec<_> = ranges.iter().map(|one| json!([range(one)])).collect();
        ipam["ranges"] = sets.into();
    }
    ipam["routes"] = routes.into();
    ipam
}

/// The ranges that a list of [`conflist`] gives addresses of.
pub fn subnets(list: &Value) -> Vec<IpNet> {
    let plugins = list["plugins"].as_array().into_iter().flatten();
    let ipams = plugins.map(|plugin| &plugin["ipam"]);
    let all = ipams.flat_map(|ipam| {
        let sets = ipam["ranges"].as_array().into_iter().flatten();
        let ranges = sets.flat_map(|set| set.as_array().into_iter().flatten());
        std::iter::once(ipam).chain(ranges)
    });
    let subnets = all.filter_map(|range| range["subnet"].as_str()?.parse().ok());
    subnets.collect()
}

/// The list as a file: two spaces deep, as those of the project are.
pub fn text(conflist: &Value) -> String {
    // Values of this kind can always be written.
    serde_json::to_string_pretty(conflist).map_or_else(
        |_| conflist.to_string(),
        |mut text| {
            text.push('\n');
            text
        },
    )
}

#[cfg(test)]
mod tests {
    use cni::runtime::NetworkList;

    use super::*;
    use crate::{Document, Plan};

    fn plan(text: &str) -> Plan {
        let document = Document::parse("c", text).unwrap();
        Plan::new(Cluster::new(document.read().unwrap()).unwrap()).unwrap()
    }

    fn of(plan: &Plan, node: &str, types: Types) -> Value {
        let (_, ranges) = plan.node(node).unwrap();
        let list = conflist(&plan.cluster, ranges, types);
        // As a runtime reads it.
        let read = NetworkList::parse(text(&list).into_bytes()).unwrap();
        assert_eq!(read.name, plan.cluster.network);
        let schema = schemas::shipped("conflist");
        assert_eq!(schemas::flaws(&schema, &list), Vec::<String>::new());
        assert_eq!(subnets(&list), ranges);
        list
    }

    /// A shipped one, with the gateway that is written out here.
    fn shipped(file: &str, gateway: &str) -> Value {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/");
        let text = std::fs::read(format!("{folder}{file}")).unwrap();
        let mut list: Value = serde_json::from_slice(&text).unwrap();
        list["plugins"][0]["ipam"]["gateway"] = gateway.into();
        list
    }

    #[test]
    fn those_of_one_range_are_as_they_are_shipped() {
        let plan = plan("podSubnet: 10.244.0.0/16\nnodes: [{name: a}, {name: b}]");
        for (file, types) in [
            ("10-k8nd.conflist", Types::Standard),
            ("10-k8nd-lite.conflist", Types::Lite),
        ] {
            assert_eq!(of(&plan, "a", types), shipped(file, "10.244.0.1"), "{file}");
        }
        let second = of(&plan, "b", Types::Standard);
        let ipam = json!({
            "type": "host-local",
            "subnet": "10.244.1.0/24",
            "gateway": "10.244.1.1",
            "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "10.244.0.0/16" }],
        });
        assert_eq!(second["plugins"][0]["ipam"], ipam);
    }

    #[test]
    fn two_ranges_and_every_wish() {
        let plan = plan(
            "podSubnet: 10.244.0.0/16,fd00:10:244::/48
network: n
bridge: br-pods
mtu: 1400
features: {portMappings: false, ipMasq: false, hairpinMode: false}
nodes: [{name: a}, {name: b}]
",
        );
        let expected = json!({
            "cniVersion": "1.0.0",
            "name": "n",
            "plugins": [
                {
                    "type": "bridge-lite",
                    "bridge": "br-pods",
                    "isGateway": true,
                    "ipMasq": false,
                    "hairpinMode": false,
                    "mtu": 1400,
                    "ipam": {
                        "type": "host-local-lite",
                        "ranges": [
                            [{ "subnet": "10.244.1.0/24", "gateway": "10.244.1.1" }],
                            [{ "subnet": "fd00:10:244:1::/64", "gateway": "fd00:10:244:1::1" }],
                        ],
                        "routes": [
                            { "dst": "0.0.0.0/0" },
                            { "dst": "::/0" },
                            { "dst": "10.244.0.0/16" },
                            { "dst": "fd00:10:244::/48" },
                        ],
                    },
                },
                { "type": "bandwidth-lite", "capabilities": { "bandwidth": true } },
            ],
        });
        assert_eq!(of(&plan, "b", Types::Lite), expected);
    }
}
