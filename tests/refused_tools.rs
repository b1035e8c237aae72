//! An ADD whose rules cannot be made leaves everything as it was, and says why.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Node, Pod, Site, World, at, kind, port, replace_iptables, sh, with, without_tools};

/// No tool is found on it.
const NO_PATH: &[(&str, &str)] = &[("PATH", "/does/not/exist")];

/// The bridge's and portmap's configurations for a pod that the bridge has, without masquerade,
/// connected already; and what the bridge made.
fn connected(world: &World, pod: &Pod) -> Vec<Value> {
    let mut configs = world.configs();
    configs[0] = with(&configs[0], "ipMasq", &Value::Null);
    let result = world.node.add_each(&configs[..1], pod);
    let with_result = |config| with(config, "prevResult", &result);
    configs.iter().map(with_result).collect()
}

#[test]
fn without_iptables() {
    for world in World::of_each_family("tools-missing") {
        let add = |config: &Value, pod: &Pod| {
            let process = without_tools(world.node.bin.join(kind(config)));
            world.node.call_as(process, "ADD", pod, config, NO_PATH)
        };
        let bare = world.node.pod("bare");
        // Else the node's nftables would do.
        let masquerade = &with(&world.configs()[0], "ipMasqBackend", &json!("iptables"));
        let refused = add(masquerade, &bare);
        refused.expect_refused("bridge", 100, &["ipMasq: true", "iptables not found"]);
        world.expect_bare("bridge", &bare);
        world.expect_untouched("bridge");

        let pod = world.node.pod("pod");
        let mut configs = connected(&world, &pod);
        configs[1] = with(&configs[1], "backend", &json!("iptables"));
        let before = world.snapshot();
        let refused = add(&configs[1], &pod);
        let words = ["cannot map ports", "tables not found"];
        refused.expect_refused("portmap", 100, &words);
        assert_eq!(world.snapshot(), before);

        // Who needs none misses none.
        add(&with(&configs[1], "runtimeConfig", &Value::Null), &pod).ok();
        world.del("portmap", &configs, &pod, &[]);
        let plain = with(masquerade, "ipMasq", &Value::Null);
        add(&plain, &bare).ok();
        world.del("bridge", &[plain], &bare, &[]);
        world.expect_untouched("without rules");
    }
}

/// iptables answers, and takes no change: its message and status are told, and all that was made
/// before is taken back. Status 4 is "try again", which does not help here.
#[test]
fn iptables_that_refuses() {
    for world in World::of_each_family("tools-broken") {
        for status in [1, 2, 3, 4] {
            let script = format!(
                "case $0 in *-restore) cat > /dev/null; echo 'no luck' >&2; exit {status};; esac\n\
                 exec $real \"$@\""
            );
            let folder = world.node.folder().join(format!("status{status}"));
            let folder = replace_iptables(&folder, &script).display().to_string();
            refuse_with(&world, &folder, &["no luck", &format!("status {status}")]);
        }
        for (name, script) in [
            ("all", "echo 'no luck' >&2; exit 1"),
            ("killed", "echo 'no luck' >&2; kill -9 $$"),
            (
                "killed-late",
                "case $0 in *-restore) $real \"$@\"; echo 'no luck' >&2; kill -9 $$;; esac\n\
                 exec $real \"$@\"",
            ),
        ] {
            let folder = world.node.folder().join(name);
            let folder = replace_iptables(&folder, script).display().to_string();
            refuse_with(&world, &folder, &["no luck"]);
        }
    }
}

/// Bridge and portmap with the tools of a folder; both must refuse.
fn refuse_with(world: &World, folder: &str, words: &[&str]) {
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let env = [("PATH", path.as_str())];
    let pod = world.node.pod("pod");
    let bridge = &world.configs()[0];
    let refused = world.node.call("bridge", "ADD", &pod, bridge, &env);
    refused.expect_refused(folder, 100, &["failed to set up masquerade"]);
    refused.expect_refused(folder, 100, words);
    world.expect_bare(folder, &pod);
    world.expect_untouched(folder);

    let configs = connected(world, &pod);
    let before = world.snapshot();
    let refused = world.node.call("portmap", "ADD", &pod, &configs[1], &env);
    refused.expect_refused(folder, 100, &["unable to setup DNAT"]);
    refused.expect_refused(folder, 100, words);
    assert_eq!(world.snapshot(), before, "{folder}");
    world.del(folder, &configs, &pod, &[]);
    world.expect_untouched(folder);
    pod.namespace.remove().unwrap();
}

/// The second family refuses: what the first was given is taken back.
#[test]
fn one_family_that_refuses() {
    let Some(node) = Node::new("tools-family") else {
        return;
    };
    let ranges = json!([
        [{ "subnet": "10.244.0.0/24" }],
        [{ "subnet": "fd00:10:244::/64" }]
    ]);
    let ipam = json!({ "type": "host-local", "dataDir": node.data, "ranges": ranges });
    let plain = node.bridge_config(json!({ "ipam": ipam }));
    let masquerade = with(&plain, "ipMasq", &json!(true));
    let ports = json!({ "portMappings": [
        { "hostPort": 9080, "containerPort": 80, "protocol": "tcp" }
    ]});
    let mut portmap = json!({
        "cniVersion": "1.0.0", "name": "testnet", "type": "portmap", "runtimeConfig": ports
    });
    // What all pods share comes with the first.
    let first = node.pod("first");
    node.add_each(&[masquerade.clone(), portmap.clone()], &first);
    for answer in node.del_each(&[masquerade.clone(), portmap.clone()], &first, &[]) {
        answer.ok();
    }
    let before = node.snapshot("testnet");

    for (case, family) in [("ipv4", "iptables"), ("ipv6", "ip6tables")] {
        let script = format!(
            "case $0 in */{family}-*restore|*/{family}-restore)\n\
             cat > /dev/null; echo 'no luck' >&2; exit 1;; esac\n\
             exec $real \"$@\""
        );
        let folder = replace_iptables(&node.folder().join(case), &script);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let env = [("PATH", path.as_str())];
        let pod = node.pod(case);
        let refused = node.call("bridge", "ADD", &pod, &masquerade, &env);
        refused.expect_refused(case, 100, &["no luck", family]);
        assert_eq!(node.snapshot("testnet"), before, "{case}: bridge");

        let added = node.call("bridge", "ADD", &pod, &plain, &[]);
        portmap["prevResult"] = added.ok().clone();
        let connected = node.snapshot("testnet");
        let refused = node.call("portmap", "ADD", &pod, &portmap, &env);
        refused.expect_refused(case, 100, &["no luck", family]);
        assert_eq!(node.snapshot("testnet"), connected, "{case}: portmap");
        node.call("bridge", "DEL", &pod, &plain, &[]).ok();
        assert_eq!(node.snapshot("testnet"), before, "{case}: DEL");
    }
}

/// Another program keeps the table `nat`, with things in it for which iptables has no words: its own
/// message is told, and tables of our own are not concerned.
#[test]
fn a_table_that_iptables_cannot_use() {
    if lab::find_tool("nft").is_none() {
        return lab::skip("nft is not installed");
    }
    let by = |backend: &str| {
        [
            ("bridge", json!({ "ipMasqBackend": backend })),
            ("portmap", json!({ "backend": backend })),
        ]
    };
    let Some(site) = Site::new("tools-foreign", &by("nftables")) else {
        return;
    };
    let node = &site.node;
    let lines = "add table ip nat
        add map ip nat foreign { type inet_service : ipv4_addr; }
        add chain ip nat PREROUTING { type nat hook prerouting priority dstnat; }
        add rule ip nat PREROUTING dnat to tcp dport map @foreign";
    let file = node.folder().join("foreign");
    std::fs::write(&file, lines).unwrap();
    sh(&node.namespace, &format!("nft -f {}", file.display()));
    let ruleset = || sh(&node.namespace, "nft list ruleset");

    let list = node.conflist_with("20-dual-stack.conflist", &by("iptables"));
    let pod = node.pod("by-iptables");
    let asked = json!({ "portMappings": [port(8080, 80, "tcp")] });
    let error = node.add(&list, &pod, asked).unwrap_err();
    assert!(error.msg.contains("`nat' is incompatible"), "{error}");
    node.del(&list, &pod).unwrap();
    let left = ruleset();
    assert!(
        left.contains("@foreign") && !left.contains("CNI-"),
        "{left}"
    );

    let served = site.pod("by-nftables", &[port(8080, 80, "tcp")]);
    node.check(&site.list, &served.pod).unwrap();
    let seen = site.outside.ask_tcp(at("192.0.2.10:8080")).unwrap();
    assert!(served.answered(&seen), "{seen}");
    site.del(&served);
    assert!(ruleset().contains("@foreign"));
}
