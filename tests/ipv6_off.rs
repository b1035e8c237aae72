//! A node without IPv6, or without the programs for one family, serves the other.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{
    Answer, Node, Pod, VALID, address, at, entry, kind, replace_iptables, sh, with, with_mounts,
    with_one_family,
};

/// How plugins are started on a node.
type Start<'a> = &'a dyn Fn(PathBuf) -> Command;

/// The network's name.
const NETWORK: &str = "testnet";
/// The ranges of both families.
const RANGES: [&str; 2] = ["10.244.0.0/24", "fd00:10:244::/64"];

/// The chain, with these ranges, for a pod with a host port.
fn configs(node: &Node, ranges: &[&str], backend: &str) -> Vec<Value> {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|subnet| json!([{ "subnet": subnet }]))
        .collect();
    let list = json!({
        "cniVersion": "1.1.0",
        "name": NETWORK,
        "plugins": [
            {
                "type": "bridge", "isDefaultGateway": true, "hairpinMode": true,
                "ipMasq": true, "ipMasqBackend": backend,
                "ipam": { "type": "host-local", "ranges": ranges }
            },
            { "type": "portmap", "backend": backend, "capabilities": { "portMappings": true } },
            { "type": "bandwidth", "capabilities": { "bandwidth": true } }
        ]
    });
    let asked = json!({
        "portMappings": [
            { "hostPort": 8080, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": 8053, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": { "egressRate": 100_000_000, "egressBurst": 8_000_000 }
    });
    node.configs(&node.list(list), &asked)
}

fn call(node: &Node, start: Start, command: &str, pod: &Pod, config: &Value) -> Answer {
    let process = start(node.bin.join(kind(config)));
    node.call_as(process, command, pod, config, &[])
}

/// Every verb for a pod of one family, which is served in between; in the end nothing is left.
#[track_caller]
fn life(case: &str, (node, outside): (&Node, &Namespace), start: Start, configs: &[Value]) {
    let status = |config| {
        let process = start(node.bin.join(kind(config)));
        node.call_network_as(process, "STATUS", config, &[])
    };
    let expect_ok = |verb: &str, answer: Answer| {
        assert_eq!(answer.status, 0, "{case}: {verb}: {answer:?}");
        answer.json
    };
    let mut before = None;
    // What all pods share comes with the first.
    for name in ["first", "second"] {
        let pod = node.pod(name);
        let mut result = Value::Null;
        for config in configs {
            expect_ok("STATUS", status(config));
            let config = with(config, "prevResult", &result);
            result = expect_ok("ADD", call(node, start, "ADD", &pod, &config));
        }
        let target = std::net::SocketAddr::new(address(&result), 80);
        let _server = pod.namespace.serve_tcp(target).unwrap();
        let port = match target.is_ipv4() {
            true => at("192.0.2.10:8080"),
            false => at("[2001:db8::10]:8080"),
        };
        assert_eq!(outside.ask_tcp(port).unwrap().local, target, "{case}");
        for config in configs.iter().rev() {
            let config = with(config, "prevResult", &result);
            expect_ok("CHECK", call(node, start, "CHECK", &pod, &config));
            let process = start(node.bin.join(kind(&config)));
            let valid = json!([entry(name, "eth0")]);
            let gc = with(&config, VALID, &valid);
            expect_ok("GC", node.call_network_as(process, "GC", &gc, &[]));
            expect_ok("CHECK", call(node, start, "CHECK", &pod, &config));
        }
        for config in configs.iter().rev() {
            let config = with(config, "prevResult", &result);
            for verb in ["DEL", "DEL"] {
                expect_ok(verb, call(node, start, verb, &pod, &config));
            }
        }
        let left = node.snapshot(NETWORK);
        assert_eq!(*before.get_or_insert(left.clone()), left, "{case}");
        let text = left.to_string();
        assert!(
            !text.contains("veth0") && !text.contains(name),
            "{case}: {text}"
        );
    }
}

/// That the ADD of the bridge is refused with these words, and that nothing was made.
#[track_caller]
fn refuse(case: &str, node: &Node, start: Start, config: &Value, words: &[&str]) {
    let before = node.snapshot(NETWORK);
    let pod = node.pod("refused");
    let answer = call(node, start, "ADD", &pod, config);
    answer.expect_refused(case, 100, words);
    assert_eq!(node.snapshot(NETWORK), before, "{case}");
    let links = pod.namespace.netlink().unwrap().links().unwrap();
    assert_eq!(links.len(), 1, "{case}: {links:?}");
    pod.namespace.remove().unwrap();
}

/// Switches IPv6 off for all links, and for those to come.
fn switch_off(namespace: &Namespace) {
    let files = "/proc/sys/net/ipv6/conf/*/disable_ipv6";
    sh(
        namespace,
        &format!("for file in {files}; do echo 1 > $file; done"),
    );
}

/// One node after the other: for each backend that rules can be made by.
fn by_each_backend(test: impl Fn(&Node, &Namespace, &str)) {
    for backend in ["iptables", "nftables"] {
        if let Some(node) = Node::new(&format!("off-{backend}")) {
            test(&node, &node.outside(), backend);
        }
    }
}

#[test]
fn switched_off_by_sysctls() {
    by_each_backend(|node, outside, backend| {
        switch_off(&node.namespace);
        let ipv4 = configs(node, &RANGES[..1], backend);
        life("IPv4", (node, outside), &Command::new, &ipv4);
        // Now there is a bridge; later one that is yet to be made.
        for bridge in ["cni0", "cni7"] {
            let both = with(
                &configs(node, &RANGES, backend)[0],
                "bridge",
                &json!(bridge),
            );
            let words = [
                "failed to set bridge addr",
                bridge,
                "fd00:10:244::1/64",
                "IPv6 is switched off",
                "disable_ipv6: 1",
            ];
            refuse(bridge, node, &Command::new, &both, &words);
        }
        // Where only pods have it, nothing of the node's is needed.
        let ipv6 = with(
            &configs(node, &RANGES[1..], backend)[0],
            "bridge",
            &json!("cni6"),
        );
        let ipv6 = with(&ipv6, "isDefaultGateway", &json!(false));
        let pods = ["a", "b"].map(|name| {
            let pod = node.pod(name);
            switch_off(&pod.namespace);
            let result = call(node, &Command::new, "ADD", &pod, &ipv6);
            (pod, address(result.ok()))
        });
        pods[0].0.namespace.ping(pods[1].1).unwrap();
    });
}

#[test]
fn without_its_sysctls() {
    by_each_backend(|node, outside, backend| {
        let ipv4 = configs(node, &RANGES[..1], backend);
        let hide = "mount -t tmpfs tmpfs /proc/sys/net/ipv6";
        // Each namespace has its own folder of that name.
        let in_pod = format!("test -z \"$CNI_NETNS\" || nsenter --net=\"$CNI_NETNS\" {hide}");
        let lines = [hide.to_owned(), in_pod];
        let start = |program| with_mounts(&lines, program);
        life("IPv4", (node, outside), &start, &ipv4);
    });
}

#[test]
fn in_a_kernel_without_it() {
    by_each_backend(|node, outside, backend| {
        // Of all that is there the plugins read one more file.
        let hide = "kept=$(cat /proc/$$/net/psched) && mount -t tmpfs tmpfs /proc/$$/net &&
                    echo \"$kept\" > /proc/$$/net/psched";
        let lines = [hide.to_owned()];
        let start = |program| with_mounts(&lines, program);
        let ipv4 = configs(node, &RANGES[..1], backend);
        life("IPv4", (node, outside), &start, &ipv4);
        for ranges in [&RANGES[..], &RANGES[1..]] {
            let config = &configs(node, ranges, backend)[0];
            let words = ["fd00:10:244::", "IPv6, which the kernel does not do"];
            refuse(ranges[0], node, &start, config, &words);
        }
    });
}

#[test]
fn iptables_of_one_family_alone() {
    for (prefix, other, own) in [("iptables", "ip6tables", 0), ("ip6tables", "iptables", 1)] {
        let Some(mut node) = Node::new(prefix) else {
            return;
        };
        let outside = node.outside();
        let aside = node.folder().join("sbin");
        node.path = "/usr/bin:/bin".into();
        let start = |program| with_one_family(prefix, &aside, program);
        let one = configs(&node, &RANGES[own..=own], "iptables");
        life(prefix, (&node, &outside), &start, &one);
        let both = &configs(&node, &RANGES, "iptables")[0];
        let words = ["ipMasq: true", &format!("{other} not found")];
        refuse(prefix, &node, &start, both, &words);
    }
}

/// As of a kernel without the modules of a family.
#[test]
fn iptables_that_work_for_one_family_alone() {
    for (family, broken, own) in [("iptables", "ip6tables", 0), ("ip6tables", "iptables", 1)] {
        let Some(mut node) = Node::new(family) else {
            return;
        };
        let outside = node.outside();
        let script = format!(
            "case ${{0##*/}} in {broken}*) echo 'no such table' >&2; exit 3;; esac
             exec $real \"$@\""
        );
        let tools = replace_iptables(&node.folder().join("tools"), &script);
        node.path = format!("{}:/usr/bin:/bin", tools.display()).into();
        let one = configs(&node, &RANGES[own..=own], "iptables");
        life(family, (&node, &outside), &Command::new, &one);
    }
}
