//! Configurations, and what a runtime asks of them for a pod.

use std::path::Path;

use cni::Version;
use serde_json::{Map, Value, json};

use crate::Rules;

/// Both ways, in bits a second. The burst, in bits, is a second's worth.
const RATE: u64 = 1_000_000;

/// How many pods a network takes. A bridge has room for 1,023 ports.
pub const PODS_PER_NETWORK: u32 = 250;

/// The chain of the network with that number: its own bridge and its own range of 1,022 addresses.
pub fn chain(number: u32, rules: Rules, data: &Path, version: Version) -> Value {
    let mut bridge = json!({
        "type": "bridge",
        "bridge": format!("cni{number}"),
        "isGateway": true,
        "ipMasq": true,
        "ipam": ipam(&format!("10.64.{}.0/22", number * 4), data),
    });
    let mut portmap = json!({ "type": "portmap", "capabilities": { "portMappings": true } });
    extend(&mut bridge, rules.of_bridge());
    extend(&mut portmap, rules.of_portmap());
    json!({
        "cniVersion": version.as_str(),
        "name": format!("bench{number}"),
        "plugins": [
            bridge,
            portmap,
            { "type": "bandwidth", "capabilities": { "bandwidth": true } }
        ]
    })
}

/// What host-local is given when it is called alone, with a range of 65,534 addresses.
pub fn host_local(data: &Path) -> Value {
    json!({
        "cniVersion": Version::V1_0_0.as_str(),
        "name": "bench",
        "type": "bridge",
        "ipam": ipam("10.64.0.0/16", data),
    })
}

fn ipam(subnet: &str, data: &Path) -> Value {
    json!({
        "type": "host-local",
        "subnet": subnet,
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dataDir": data,
    })
}

/// What a runtime asks for: `ports` tcp ports from `first` on, and both rates.
pub fn capabilities(first: u32, ports: u32) -> Map<String, Value> {
    let mapping = |port: u32| json!({ "hostPort": port, "containerPort": 80, "protocol": "tcp" });
    let mappings: Vec<_> = (first..first + ports).map(mapping).collect();
    let mut asked = Map::new();
    asked.insert("portMappings".to_owned(), json!(mappings));
    let rates = json!({
        "ingressRate": RATE, "ingressBurst": RATE, "egressRate": RATE, "egressBurst": RATE
    });
    asked.insert("bandwidth".to_owned(), rates);
    asked
}

fn extend(plugin: &mut Value, keys: Map<String, Value>) {
    if let Value::Object(plugin) = plugin {
        plugin.extend(keys);
    }
}

#[cfg(test)]
mod tests {
    use cni::runtime::NetworkList;

    use super::*;

    fn parsed(number: u32, rules: Rules) -> NetworkList {
        let list = chain(number, rules, Path::new("/data"), Version::V1_0_0);
        NetworkList::parse(list.to_string().into_bytes()).unwrap()
    }

    #[test]
    fn networks_have_bridges_and_ranges_of_their_own() {
        let [one, two] = [0, 3].map(|number| parsed(number, Rules::IptablesNft));
        assert_eq!([one.name, two.name], ["bench0", "bench3"]);
        let of = |list: &NetworkList| list.plugins[0].clone();
        let (one, two) = (of(&parsed(0, Rules::IptablesNft)), two.plugins[0].clone());
        assert_eq!([&one["bridge"], &two["bridge"]], ["cni0", "cni3"]);
        assert_eq!(one["ipam"]["subnet"], "10.64.0.0/22");
        assert_eq!(two["ipam"]["subnet"], "10.64.12.0/22");
    }

    #[test]
    fn only_nftables_is_named() {
        let iptables = parsed(0, Rules::IptablesLegacy);
        assert!(!String::from_utf8(iptables.raw).unwrap().contains("ackend"));
        let nftables = parsed(0, Rules::Nftables);
        assert_eq!(nftables.plugins[0]["ipMasqBackend"], "nftables");
        assert_eq!(nftables.plugins[1]["backend"], "nftables");
    }

    #[test]
    fn as_many_ports_as_asked_for() {
        let asked = capabilities(8000, 2);
        let ports = asked["portMappings"].as_array().unwrap();
        let ports: Vec<_> = ports.iter().map(|port| &port["hostPort"]).collect();
        assert_eq!(ports, [8000, 8001]);
    }
}
