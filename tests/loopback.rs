//! The loopback plugin, called as containerd calls it for every sandbox, and as a part of a chain.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::process::Command;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Answer, Node, Plugins, Pod, VALID, entry, reference_variants, sh, with};

/// What the interface has when it is up.
const ADDRESSES: [&str; 2] = ["127.0.0.1/8", "::1/128"];

/// A node and a pod whose loopback is down, as a runtime makes it.
fn pod(label: &str) -> Option<(Node, Pod)> {
    let node = Node::new(label)?;
    let pod = fresh(&node, "pod");
    Some((node, pod))
}

fn fresh(node: &Node, name: &str) -> Pod {
    let mut pod = node.pod(name);
    pod.ifname = "lo".to_owned();
    sh(&pod.namespace, "ip link set lo down");
    pod
}

fn config(version: &str) -> Value {
    json!({ "cniVersion": version, "name": "cni-loopback", "type": "loopback" })
}

/// The configuration with a result of the chain.
fn told(result: &Value) -> Value {
    with(&config("1.1.0"), "prevResult", result)
}

/// The interface's flags and addresses, as `ip` prints them.
fn seen(namespace: &Namespace) -> String {
    sh(namespace, "ip address show dev lo")
}

fn is_up(namespace: &Namespace) -> bool {
    let netlink = namespace.netlink().unwrap();
    netlink.link("lo").unwrap().unwrap().up
}

/// That it is up, and answers in both families.
#[track_caller]
fn expect_served(pod: &Pod) {
    assert!(is_up(&pod.namespace));
    for address in ["127.0.0.1", "127.1.2.3", "::1"] {
        pod.namespace.ping(address.parse().unwrap()).unwrap();
    }
}

#[track_caller]
fn expect_done(case: &str, answer: &Answer) {
    let done = (answer.status, answer.stdout.as_str());
    assert_eq!(done, (0, ""), "{case}: {answer:?}");
}

#[test]
fn as_containerd_calls_it() {
    let Some((node, pod)) = pod("loopback") else {
        return;
    };
    let before = node.snapshot("cni-loopback");
    let call = |command| node.call("loopback", command, &pod, config("0.3.1"), &[]);
    let fresh = seen(&pod.namespace);
    for _ in 0..2 {
        let expected = json!({
            "cniVersion": "0.3.1",
            "interfaces": [
                { "name": "lo", "mac": "00:00:00:00:00:00", "sandbox": pod.namespace.path() }
            ],
            "ips": [
                { "version": "4", "interface": 0, "address": "127.0.0.1/8" },
                { "version": "6", "interface": 0, "address": "::1/128" }
            ],
            "dns": {}
        });
        assert_eq!(call("ADD").ok(), &expected);
        expect_served(&pod);
    }
    for _ in 0..2 {
        expect_done("DEL", &call("DEL"));
        assert_eq!(seen(&pod.namespace), fresh);
    }
    assert_eq!(node.snapshot("cni-loopback"), before);
}

#[test]
fn a_result_of_every_version() {
    let Some((node, pod)) = pod("loopback-versions") else {
        return;
    };
    for version in ["0.1.0", "0.2.0"] {
        let answer = node.call("loopback", "ADD", &pod, config(version), &[]);
        let expected = json!({
            "cniVersion": version,
            "ip4": { "ip": "127.0.0.1/8" },
            "ip6": { "ip": "::1/128" },
            "dns": {}
        });
        assert_eq!(answer.ok(), &expected);
    }
    for version in ["0.3.0", "0.4.0", "1.0.0", "1.1.0"] {
        let answer = node.call("loopback", "ADD", &pod, config(version), &[]);
        let ips = answer.ok()["ips"].as_array().unwrap().clone();
        for (ip, (address, family)) in ips.iter().zip(ADDRESSES.iter().zip(["4", "6"])) {
            let mut expected = json!({ "interface": 0, "address": address });
            if version < "1.0.0" {
                expected["version"] = family.into();
            }
            assert_eq!(ip, &expected, "{version}");
        }
        let interface = &answer.json["interfaces"][0];
        assert_eq!(interface.as_object().unwrap().len(), 3, "{version}");
    }
}

/// Whatever the interface is called, since a chain's is `eth0`.
#[test]
fn the_result_of_a_chain_is_handed_on() {
    let Some((node, pod)) = pod("loopback-chain") else {
        return;
    };
    let eth0 = [("CNI_IFNAME", "eth0")];
    let previous = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{ "name": "eth0", "sandbox": pod.namespace.path(), "mtu": 1400 }],
        "ips": [{ "interface": 0, "address": "10.1.0.2/24" }],
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dns": { "nameservers": ["10.96.0.10"] }
    });
    let call = |command| node.call("loopback", command, &pod, told(&previous), &eth0);
    assert_eq!(call("ADD").ok(), &previous);
    expect_served(&pod);
    expect_done("CHECK", &call("CHECK"));
    sh(&pod.namespace, "ip address del ::1/128 dev lo");
    call("CHECK").expect_refused("no ::1", 101, &["no address ::1/128"]);
    expect_done("DEL", &call("DEL"));
    assert!(!is_up(&pod.namespace));
}

#[test]
fn whatever_is_gone_is_noticed() {
    let Some((node, pod)) = pod("loopback-check") else {
        return;
    };
    let result = node.call("loopback", "ADD", &pod, config("1.1.0"), &[]);
    let result = result.ok();
    let config = told(result);
    let check = || node.call("loopback", "CHECK", &pod, &config, &[]);
    for (damage, mend, words) in [
        ("ip link set lo down", "ip link set lo up", "is down"),
        (
            "ip address del 127.0.0.1/8 dev lo",
            "ip address add 127.0.0.1/8 dev lo",
            "no address 127.0.0.1/8",
        ),
        (
            "ip address del ::1/128 dev lo",
            "ip address add ::1/128 dev lo",
            "no address ::1/128",
        ),
        (
            "sysctl -q -w net.ipv6.conf.lo.disable_ipv6=1",
            "sysctl -q -w net.ipv6.conf.lo.disable_ipv6=0",
            "no address ::1/128",
        ),
    ] {
        expect_done(damage, &check());
        sh(&pod.namespace, damage);
        check().expect_refused(damage, 101, &[words]);
        sh(&pod.namespace, mend);
    }
    // By others.
    sh(&pod.namespace, "ip address add 10.1.1.1/32 dev lo");
    expect_done("an address more", &check());
    // What the chain says itself.
    sh(&pod.namespace, "ip address del ::1/128 dev lo");
    let mut changed = result.clone();
    changed["ips"].as_array_mut().unwrap().pop();
    let answer = node.call("loopback", "CHECK", &pod, told(&changed), &[]);
    expect_done("told otherwise", &answer);
    let gone = [("CNI_NETNS", "/run/netns/of-nobody")];
    let answer = node.call("loopback", "CHECK", &pod, &config, &gone);
    answer.expect_refused("no namespace", 4, &["of-nobody"]);
}

#[test]
fn an_interface_that_is_in_use_is_refused_untouched() {
    let Some((node, pod)) = pod("loopback-used") else {
        return;
    };
    for (address, words) in [
        ("10.1.1.1/32", "10.1.1.1"),
        ("2001:db8::1/128", "2001:db8::1"),
    ] {
        sh(&pod.namespace, &format!("ip address add {address} dev lo"));
        let before = seen(&pod.namespace);
        let answer = node.call("loopback", "ADD", &pod, config("1.0.0"), &[]);
        let said = format!("loopback interface found with non-loopback address \"{words}\"");
        answer.expect_refused(address, 103, &[&said, address]);
        assert_eq!(seen(&pod.namespace), before);
        sh(&pod.namespace, &format!("ip address del {address} dev lo"));
    }
    let broken = with(
        &config("1.0.0"),
        "prevResult",
        &json!({ "cniVersion": "0.4.0" }),
    );
    let answer = node.call("loopback", "ADD", &pod, broken, &[]);
    answer.expect_refused("another's result", 6, &["prevResult"]);
    assert!(!is_up(&pod.namespace));
}

/// Without the scope, the kernel could choose 127.0.0.1 as the source of what goes elsewhere.
#[test]
fn addresses_that_were_taken_from_it_come_back() {
    let Some((node, pod)) = pod("loopback-bare") else {
        return;
    };
    sh(&pod.namespace, "ip link set lo up");
    let whole = seen(&pod.namespace);
    sh(&pod.namespace, "ip address flush dev lo");
    let answer = node.call("loopback", "ADD", &pod, config("1.0.0"), &[]);
    assert_eq!(answer.ok()["ips"].as_array().unwrap().len(), 2);
    // It does not look for duplicates, which the kernel knows of an address of its own.
    assert_eq!(seen(&pod.namespace).replace(" nodad", ""), whole);
    expect_served(&pod);
}

#[test]
fn a_pod_without_ipv6() {
    let Some((node, pod)) = pod("loopback-v4") else {
        return;
    };
    sh(
        &pod.namespace,
        "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1",
    );
    let answer = node.call("loopback", "ADD", &pod, config("1.1.0"), &[]);
    let result = answer.ok().clone();
    let expected = json!([{ "interface": 0, "address": "127.0.0.1/8" }]);
    assert_eq!(result["ips"], expected);
    for config in [config("1.1.0"), told(&result)] {
        let answer = node.call("loopback", "CHECK", &pod, &config, &[]);
        expect_done("CHECK", &answer);
    }
}

#[test]
fn del_whatever_is_missing_or_wrong() {
    let Some((node, pod)) = pod("loopback-del") else {
        return;
    };
    assert!(is_up(&node.namespace));
    let own = [("CNI_NETNS", "/proc/self/ns/net")];
    for env in [
        [("CNI_NETNS", "")],
        [("CNI_NETNS", "/run/netns/of-nobody")],
        [("CNI_NETNS", "/etc/passwd")],
        own,
    ] {
        let answer = node.call("loopback", "DEL", &pod, config("1.0.0"), &env);
        expect_done(env[0].1, &answer);
    }
    assert!(is_up(&node.namespace), "the node's own");
    let answer = node.call("loopback", "ADD", &pod, config("1.0.0"), &own);
    answer.expect_refused("the node's own", 4, &["should not be the same"]);
    for (key, value) in [
        ("prevResult", json!(5)),
        ("dns", json!("x")),
        ("logFile", json!("x")),
    ] {
        node.call("loopback", "ADD", &pod, config("1.0.0"), &[])
            .ok();
        let config = with(&config("1.0.0"), key, &value);
        expect_done(key, &node.call("loopback", "DEL", &pod, &config, &[]));
        assert!(!is_up(&pod.namespace), "{key}");
    }
    // Nobody may change it.
    node.call("loopback", "ADD", &pod, config("1.0.0"), &[])
        .ok();
    let Some(setpriv) = lab::find_tool("setpriv") else {
        return lab::skip("setpriv is not installed");
    };
    let mut process = Command::new(setpriv);
    process.args(["--inh-caps=-net_admin", "--bounding-set=-net_admin"]);
    process.arg(node.bin.join("loopback"));
    let answer = node.call_as(process, "DEL", &pod, config("1.0.0"), &[]);
    answer.expect_refused(
        "no capability",
        100,
        &["\"lo\" of cni-loopback/pod/lo may still be up"],
    );
}

#[test]
fn gc_and_status_touch_nothing() {
    let Some((node, pod)) = pod("loopback-gc") else {
        return;
    };
    node.call("loopback", "ADD", &pod, config("1.1.0"), &[])
        .ok();
    let config = config("1.1.0");
    let missing = node.call_network("GC", &config, &[]);
    missing.expect_refused("no list", 7, &[VALID]);
    for valid in [json!([]), json!([entry("pod", "lo")])] {
        let answer = node.call_network("GC", &with(&config, VALID, &valid), &[]);
        expect_done("GC", &answer);
    }
    expect_done("STATUS", &node.call_network("STATUS", &config, &[]));
    expect_served(&pod);
}

#[test]
fn the_reference_makes_the_same() {
    let Some(variant) = reference_variants().first().copied() else {
        return;
    };
    let Some(node) = Node::new("loopback-reference") else {
        return;
    };
    let life = |plugins: &Plugins, name: &str, config: &Value| {
        let pod = fresh(&node, name);
        let mut result = plugins.call(config, "ADD", &pod, &[]).ok().clone();
        // Its 1.1.1 leaves out what 0.3.0 to 0.4.0 ask for.
        for ip in result["ips"].as_array_mut().into_iter().flatten() {
            ip.as_object_mut().unwrap().remove("version");
        }
        if let Some(sandbox) = result.pointer_mut("/interfaces/0/sandbox") {
            assert_eq!(sandbox, &json!(pod.namespace.path()));
            *sandbox = json!("sandbox");
        }
        let up = seen(&pod.namespace);
        plugins.call(config, "DEL", &pod, &[]).ok();
        (result, up, seen(&pod.namespace))
    };
    let (ours, theirs) = (
        Plugins::ours(&node, variant),
        Plugins::theirs(&node, variant),
    );
    let previous = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.1.0.2/24" }] });
    let chained = with(&config("1.0.0"), "prevResult", &previous);
    let versions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"].map(config);
    for (index, config) in versions.iter().chain([&chained]).enumerate() {
        let ours = life(&ours, &format!("ours{index}"), config);
        let theirs = life(&theirs, &format!("theirs{index}"), config);
        assert_eq!(ours, theirs, "{config}");
    }
    let words = |plugins: &Plugins, name: &str| {
        let pod = fresh(&node, name);
        let say = |command| {
            let answer = plugins.call(&config("1.0.0"), command, &pod, &[]);
            assert_eq!(answer.status, 1, "{answer:?}");
            answer.json["msg"].as_str().unwrap().to_owned()
        };
        let down = say("CHECK");
        sh(&pod.namespace, "ip address add 10.1.1.1/32 dev lo");
        [down, say("ADD")]
    };
    assert_eq!(words(&ours, "our-words"), words(&theirs, "their-words"));
}
