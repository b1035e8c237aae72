//! Every version of the specification, spoken by each plugin that knows it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::{Node, Pod, kind, with};

/// Every version; a configuration without one is of the first.
const VERSIONS: [&str; 8] = [
    "", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];
/// What `bandwidth` does not speak: a result without interfaces tells it nothing.
const WITHOUT_INTERFACES: [&str; 3] = ["", "0.1.0", "0.2.0"];
const PLUGINS: [&str; 5] = ["bridge", "portmap", "bandwidth", "loopback", "host-local"];

/// The configurations of a chain of that version, as far as its plugins speak it.
fn chain(node: &Node, version: &str) -> Vec<Value> {
    let common = json!({ "name": "testnet", "cniVersion": version });
    let common = match version {
        "" => with(&common, "cniVersion", &Value::Null),
        _ => common,
    };
    let plugins = json!([
        {
            "type": "bridge", "isGateway": true, "ipMasq": true,
            "ipam": {
                "type": "host-local", "dataDir": node.data,
                "ranges": [[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:244::/64" }]],
                "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "10.9.0.0/16", "gw": "10.244.0.9" }]
            },
            "dns": { "nameservers": ["10.96.0.10"], "search": ["local"] }
        },
        { "type": "portmap", "runtimeConfig": { "portMappings": [
            { "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }
        ] } },
        {
            "type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 800_000,
            "egressRate": 8_000_000, "egressBurst": 800_000
        }
    ]);
    let speaks =
        |plugin: &&Value| kind(plugin) != "bandwidth" || !WITHOUT_INTERFACES.contains(&version);
    let complete = |plugin: &Value| {
        let keys = common.as_object().unwrap().iter();
        keys.fold(plugin.clone(), |plugin, (key, value)| {
            with(&plugin, key, value)
        })
    };
    plugins
        .as_array()
        .unwrap()
        .iter()
        .filter(speaks)
        .map(complete)
        .collect()
}

#[test]
fn a_chain_of_every_version_comes_is_checked_and_goes() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let newest = chain(&node, "1.1.0");
    let first = node.pod("first");
    node.add_each(&newest, &first);
    for answer in node.del_each(&newest, &first, &[]) {
        answer.ok();
    }
    let before = node.snapshot("testnet");
    for version in VERSIONS {
        let pod = node.pod(&format!("pod{version}"));
        let configs = chain(&node, version);
        let result = node.add_each(&configs, &pod);
        expect_shape(&result, version, &pod);
        for config in &configs {
            let config = with(config, "prevResult", &result);
            let answer = node.call(kind(&config), "CHECK", &pod, &config, &[]);
            if version < "0.4.0" {
                assert_eq!(answer.error().0, 1, "{version}");
                assert_eq!(answer.json["msg"], "config version does not allow CHECK");
            } else {
                assert_eq!(answer.ok(), &Value::Null, "{version}: {answer:?}");
                assert_eq!(answer.stdout, "", "{version}");
            }
        }
        // Runtimes hand the result on from 0.4.0 on.
        let told = if version < "0.4.0" {
            &Value::Null
        } else {
            &result
        };
        let configs: Vec<_> = configs
            .iter()
            .map(|c| with(c, "prevResult", told))
            .collect();
        for answer in node.del_each(&configs, &pod, &[]) {
            assert_eq!(
                (answer.status, answer.stdout.as_str()),
                (0, ""),
                "{version}"
            );
        }
        assert_eq!(node.snapshot("testnet"), before, "{version:?}");
    }
}

/// That the final result of the chain is of the version's shape, key for key.
#[track_caller]
fn expect_shape(result: &Value, version: &str, pod: &Pod) {
    let said = if version.is_empty() { "0.1.0" } else { version };
    assert_eq!(result["cniVersion"], said);
    assert_eq!(
        result["dns"],
        json!({ "nameservers": ["10.96.0.10"], "search": ["local"] })
    );
    let routes = json!([
        { "dst": "0.0.0.0/0" },
        { "dst": "10.9.0.0/16", "gw": "10.244.0.9" }
    ]);
    let address = |ip: &Value, key: &str, net: &str| {
        let text = ip[key].as_str().unwrap();
        assert!(text.starts_with(net), "{version}: {text}");
    };
    if WITHOUT_INTERFACES.contains(&version) {
        assert_eq!(
            keys(result),
            ["cniVersion", "dns", "ip4", "ip6"],
            "{version}"
        );
        assert_eq!(
            keys(&result["ip4"]),
            ["gateway", "ip", "routes"],
            "{version}"
        );
        assert_eq!(keys(&result["ip6"]), ["gateway", "ip"], "{version}");
        address(&result["ip4"], "ip", "10.244.0.");
        address(&result["ip6"], "ip", "fd00:244::");
        assert_eq!(result["ip4"]["gateway"], "10.244.0.1");
        assert_eq!(result["ip4"]["routes"], routes);
        return;
    }
    assert_eq!(
        keys(result),
        ["cniVersion", "dns", "interfaces", "ips", "routes"],
        "{version}"
    );
    assert_eq!(result["routes"], routes, "{version}");
    let tells_version = version < "1.0.0";
    for (ip, (family, net)) in all(&result["ips"]).zip([("4", "10.244.0."), ("6", "fd00:244::")]) {
        address(ip, "address", net);
        assert_eq!(ip["interface"], 2, "{version}");
        match tells_version {
            true => assert_eq!(ip["version"], family, "{version}"),
            false => assert_eq!(keys(ip), ["address", "gateway", "interface"], "{version}"),
        }
    }
    let names = ["cni0", "veth", "eth0", "bwp"];
    let sandbox = pod.namespace.path().display().to_string();
    assert_eq!(all(&result["interfaces"]).count(), names.len(), "{version}");
    for (interface, name) in all(&result["interfaces"]).zip(names) {
        assert!(
            interface["name"].as_str().unwrap().starts_with(name),
            "{version}"
        );
        assert_eq!(interface["mac"].as_str().unwrap().len(), 17, "{version}");
        let inside = interface["sandbox"].as_str() == Some(&sandbox);
        assert_eq!(inside, name == "eth0", "{version}: {interface}");
        let has_mtu = interface.get("mtu").is_some();
        assert!(!has_mtu || version == "1.1.0", "{version}: {interface}");
    }
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

fn all(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

#[test]
fn a_chained_plugin_hands_on_what_it_was_given() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    for version in VERSIONS {
        let pod = node.pod(&format!("pod{version}"));
        let bridge = &chain(&node, version)[0];
        let result = node.call("bridge", "ADD", &pod, bridge, &[]).ok().clone();
        for plugin in ["portmap", "bandwidth", "loopback"] {
            if plugin == "bandwidth" && WITHOUT_INTERFACES.contains(&version) {
                continue;
            }
            for given in [json!(null), json!({}), json!({ "dns": { "Servers": [] } })] {
                let config = json!({ "name": "testnet", "type": plugin, "prevResult": result });
                let config = with(&config, "cniVersion", &bridge["cniVersion"]);
                let mut config = with(&config, "runtimeConfig", &given);
                if given.is_null() {
                    // Runtimes write it so.
                    config["runtimeConfig"] = given;
                }
                let handed = node.call(plugin, "ADD", &pod, &config, &[]);
                assert_eq!(handed.ok(), &result, "{plugin}, {version:?}");
            }
        }
    }
}

#[test]
fn versions_that_are_none_or_not_spoken() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let pod = node.pod("pod");
    let all = r#"["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]"#;
    let new = r#"["0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]"#;
    for plugin in PLUGINS {
        let supported = if plugin == "bandwidth" { new } else { all };
        let mut unknown = vec![
            "9.9.9", "2.0.0", "1.1.1", "1.2.0", "0.5.0", "1.0", "1", "v1.0.0",
        ];
        if plugin == "bandwidth" {
            unknown.extend(WITHOUT_INTERFACES);
        }
        for version in unknown {
            let config = json!({ "cniVersion": version, "name": "testnet", "type": plugin });
            for command in ["ADD", "DEL"] {
                let answer = node.call(plugin, command, &pod, &config, &[]);
                assert_eq!(answer.error().0, 1, "{plugin} {version}");
                assert_eq!(answer.json["msg"], "incompatible CNI versions");
                let said = if version.is_empty() { "0.1.0" } else { version };
                let details = format!("config is {said:?}, plugin supports {supported}");
                assert_eq!(answer.json["details"], details);
            }
        }
        for version in [json!(1.0), json!(["1.0.0"]), json!({})] {
            let config = json!({ "cniVersion": version, "name": "testnet", "type": plugin });
            let answer = node.call(plugin, "ADD", &pod, &config, &[]);
            assert_eq!(answer.error().0, 6, "{plugin} {version}");
        }
    }
}

#[test]
fn what_came_with_a_later_version_is_refused_before() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let pod = node.pod("pod");
    for plugin in PLUGINS {
        for version in VERSIONS {
            let config = json!({ "name": "testnet", "type": plugin, "cniVersion": version });
            for (command, since) in [("CHECK", "0.4.0"), ("GC", "1.1.0"), ("STATUS", "1.1.0")] {
                if version >= since {
                    continue;
                }
                let answer = node.call(plugin, command, &pod, &config, &[]);
                assert_eq!(answer.error().0, 1, "{plugin} {command} {version}");
                let msg = format!("config version does not allow {command}");
                assert_eq!(answer.json["msg"], msg, "{plugin} {version}");
            }
        }
    }
}

#[test]
fn each_tells_what_it_speaks() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let pod = node.pod("pod");
    for plugin in PLUGINS {
        let skipped = if plugin == "bandwidth" { 3 } else { 1 };
        let spoken = &VERSIONS[skipped..];
        // podman's way, whose values are none.
        let dummy = ["CNI_NETNS", "CNI_IFNAME", "CNI_PATH"].map(|name| (name, "dummy"));
        for config in ["", "{}", "nonsense", r#"{"cniVersion": "0.4.0"}"#] {
            let answer = node.call(plugin, "VERSION", &pod, config, &dummy);
            let expected = json!({ "cniVersion": "1.1.0", "supportedVersions": spoken });
            assert_eq!(answer.ok(), &expected, "{plugin}");
            assert!(answer.stdout.ends_with("}\n"), "{plugin}: one line");
            assert_eq!(answer.stdout.lines().count(), 1, "{plugin}");
        }
        // And from a runtime that writes nothing and leaves its end open.
        let mut asked = Command::new(node.bin.join(plugin));
        asked.env_clear().env("CNI_COMMAND", "VERSION");
        asked.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = asked.spawn().unwrap();
        let open = child.stdin.take();
        assert!(child.wait().unwrap().success(), "{plugin}");
        drop(open);
    }
}

#[test]
fn started_by_hand_each_says_what_it_is() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let pod = node.pod("pod");
    for plugin in PLUGINS {
        let answer = node.call(plugin, "", &pod, "", &[]);
        assert_eq!((answer.status, answer.stdout.as_str()), (0, ""), "{plugin}");
        let lines: Vec<_> = answer.stderr.lines().collect();
        let [name, versions] = lines.as_slice() else {
            panic!("{plugin}: {lines:?}");
        };
        assert!(
            name.starts_with(&format!("CNI {plugin} plugin v")),
            "{name}"
        );
        let oldest = if plugin == "bandwidth" {
            "0.3.0"
        } else {
            "0.1.0"
        };
        let expected = format!("CNI protocol versions supported: {oldest}, ");
        assert!(versions.starts_with(&expected), "{versions}");
        assert!(versions.ends_with(", 1.0.0, 1.1.0"), "{versions}");
    }
}
