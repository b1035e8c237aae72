//! What the bridge plugin tells of what it made, and how its links are marked.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use net::Mac;
use serde_json::{Value, json};
use tests::{Node, Pod, with};

fn mac_of(pod: &Pod) -> Mac {
    let link = pod.namespace.netlink().unwrap().link("eth0").unwrap();
    link.unwrap().mac.unwrap()
}

#[test]
fn a_mac_from_each_of_its_sources() {
    let Some(node) = Node::new("mac") else {
        return;
    };
    let [runtime, args, env] = [
        "02:00:00:00:00:0a",
        "02:00:00:00:00:0b",
        "02:00:00:00:00:0c",
    ];
    let capability = ("runtimeConfig", json!({ "mac": runtime }));
    let in_args = ("args", json!({ "cni": { "mac": args } }));
    let in_env = format!("IgnoreUnknown=1;MAC={env}");
    // Keys, CNI_ARGS, and the MAC that wins.
    let table = [
        (
            vec![capability.clone(), in_args.clone()],
            in_env.as_str(),
            runtime,
        ),
        (vec![capability], "", runtime),
        (vec![in_args.clone()], in_env.as_str(), args),
        (vec![in_args], "", args),
        (vec![], in_env.as_str(), env),
        (
            vec![("runtimeConfig", json!({ "mac": "" }))],
            in_env.as_str(),
            env,
        ),
    ];
    for (number, (keys, args, expected)) in table.into_iter().enumerate() {
        let pod = node.pod(&format!("p{number}"));
        let mut config = node.bridge_config(json!({}));
        for (key, value) in &keys {
            config = with(&config, key, value);
        }
        let added = node.call("bridge", "ADD", &pod, &config, &[("CNI_ARGS", args)]);
        assert_eq!(
            added.ok()["interfaces"][2]["mac"],
            expected,
            "{keys:?} {args}"
        );
        assert_eq!(mac_of(&pod), expected.parse().unwrap());
        // Nobody else has it now, and with none asked for every pod has another.
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
    let config = node.bridge_config(json!({}));
    let macs = ["one", "two"].map(|name| {
        let pod = node.pod(name);
        node.call("bridge", "ADD", &pod, &config, &[]).ok();
        mac_of(&pod)
    });
    assert_ne!(macs[0], macs[1]);
}

#[test]
fn a_bad_mac_is_refused_before_anything_is_made() {
    let Some(node) = Node::new("badmac") else {
        return;
    };
    let pod = node.pod("pod");
    let config = node.bridge_config(json!({}));
    node.call("bridge", "ADD", &pod, &config, &[]).ok();
    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    let before = node.snapshot("testnet");
    for mac in [
        "zz",
        "02:00:00:00:00",
        "02:00:00:00:00:0a:0b",
        "01:00:5e:00:00:01",
        "00:00:00:00:00:00",
    ] {
        let bad = with(&config, "runtimeConfig", &json!({ "mac": mac }));
        let (code, said) = node.call("bridge", "ADD", &pod, bad, &[]).error();
        assert_eq!(code, 7, "{said}");
        assert!(said.contains(mac), "{said}");
        assert_eq!(node.snapshot("testnet"), before, "{mac}");
    }
}

#[test]
fn a_link_tells_whose_it_is() {
    let Some(node) = Node::new("alias") else {
        return;
    };
    let mut pod = node.pod("4f1c.a_b-2");
    pod.ifname = "net1".to_owned();
    let added = node.call("bridge", "ADD", &pod, node.bridge_config(json!({})), &[]);
    let name = added.ok()["interfaces"][1]["name"].as_str().unwrap();
    let netlink = node.namespace.netlink().unwrap();
    let port = netlink.link(name).unwrap().unwrap();
    assert_eq!(port.alias, "testnet/4f1c.a_b-2/net1");
    assert_ne!(port.group, 0);

    let long = Pod {
        id: "c".repeat(300),
        ..node.pod("long")
    };
    let added = node.call("bridge", "ADD", &long, node.bridge_config(json!({})), &[]);
    let name = added.ok()["interfaces"][1]["name"].as_str().unwrap();
    let other = netlink.link(name).unwrap().unwrap();
    assert!(other.alias.starts_with("sha256:"), "{}", other.alias);
    assert_eq!(other.group, port.group, "one group a network");
}

#[test]
fn the_configuration_s_resolver_replaces_the_ipam_s_wholly() {
    let Some(node) = Node::new("dns") else {
        return;
    };
    let file = node.folder().join("resolv.conf");
    std::fs::write(
        &file,
        "nameserver 10.96.0.10\nsearch cluster.local\noptions ndots:5\n",
    )
    .unwrap();
    let config = node.bridge_config(json!({}));
    let mut ipam = config["ipam"].clone();
    ipam["resolvConf"] = json!(file);
    let config = with(&config, "ipam", &ipam);
    let of_ipam = json!({
        "nameservers": ["10.96.0.10"], "search": ["cluster.local"], "options": ["ndots:5"]
    });
    // The key `dns` of the configuration, and that of the result.
    let table = [
        (Value::Null, of_ipam.clone()),
        (json!({}), of_ipam.clone()),
        (json!({ "domain": "" }), of_ipam),
        (
            json!({ "domain": "example.org" }),
            json!({ "domain": "example.org" }),
        ),
        (
            json!({ "nameservers": ["192.0.2.53"] }),
            json!({ "nameservers": ["192.0.2.53"] }),
        ),
        (json!({ "search": [] }), json!({})),
    ];
    for (number, (dns, expected)) in table.into_iter().enumerate() {
        let pod = node.pod(&format!("p{number}"));
        let config = with(&config, "dns", &dns);
        let added = node.call("bridge", "ADD", &pod, config, &[]);
        let found = added.ok().get("dns").cloned().unwrap_or(json!({}));
        assert_eq!(found, expected, "{dns}");
    }
}

/// The result of one pod in a version, with what differs between pods written as `*`.
fn result(node: &Node, version: &str, pod: &Pod) -> Value {
    let config = with(
        &node.bridge_config(json!({})),
        "cniVersion",
        &json!(version),
    );
    let mut result = node.call("bridge", "ADD", pod, &config, &[]).ok().clone();
    let interfaces = result.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten() {
        let mac = interface["mac"].as_str().unwrap();
        assert!(mac.parse::<Mac>().is_ok(), "{mac}");
        interface["mac"] = json!("*");
        if interface["name"].as_str().unwrap().starts_with("veth") {
            interface["name"] = json!("veth*");
        }
    }
    node.call("bridge", "DEL", pod, &config, &[]).ok();
    result
}

#[test]
fn a_result_in_every_version_s_shape() {
    let Some(node) = Node::new("versions") else {
        return;
    };
    let routes = json!([{ "dst": "0.0.0.0/0" }]);
    for (number, version) in ["0.1.0", "0.2.0"].into_iter().enumerate() {
        let address = format!("10.244.0.{}/24", number + 2);
        let pod = node.pod(&format!("old{number}"));
        let expected = json!({
            "cniVersion": version,
            "ip4": { "ip": address, "gateway": "10.244.0.1", "routes": routes },
            "dns": {}
        });
        assert_eq!(result(&node, version, &pod), expected);
    }
    let versions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
    for (number, version) in versions.into_iter().enumerate() {
        let pod = node.pod(&format!("new{number}"));
        let mut interfaces = json!([
            { "name": "cni0", "mac": "*" },
            { "name": "veth*", "mac": "*" },
            { "name": "eth0", "mac": "*", "sandbox": pod.namespace.path() }
        ]);
        if version == "1.1.0" {
            for interface in interfaces.as_array_mut().unwrap() {
                interface["mtu"] = json!(1500);
            }
        }
        let address = format!("10.244.0.{}/24", number + 4);
        let mut ip = json!({ "interface": 2, "address": address, "gateway": "10.244.0.1" });
        if version < "1.0.0" {
            ip["version"] = json!("4");
        }
        let expected = json!({
            "cniVersion": version,
            "interfaces": interfaces,
            "ips": [ip],
            "routes": routes,
            "dns": {}
        });
        assert_eq!(result(&node, version, &pod), expected);
    }
}
