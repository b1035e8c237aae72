//! GC by what it is told, and on nodes where something is wrong.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs;

use serde_json::{Value, json};
use tests::{Answer, Site, VALID, World, at, entry, failures, kind, port, sh, with, without_tools};

/// The configurations as a runtime has them for GC.
fn configs(world: &World) -> Vec<Value> {
    let bare = |config: &Value| {
        let config = with(config, "cniVersion", &json!("1.1.0"));
        with(&config, "runtimeConfig", &Value::Null)
    };
    world.configs().iter().map(bare).collect()
}

/// GC after which the pod that stays, and others that are valid, are as before; all must succeed.
#[track_caller]
fn gc(world: &World, valid: &[Value]) {
    let valid = [&[entry("other", "eth0")], valid].concat();
    for answer in world.node.gc_each(&configs(world), &valid) {
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (0, ""),
            "{answer:?}"
        );
    }
}

/// Its configuration of the IPAM plugin is the bridge's.
fn each_alone(world: &World) -> Vec<Value> {
    let mut all = configs(world);
    all.push(with(&all[0], "type", &json!("host-local")));
    all
}

#[test]
fn a_list_that_is_not_understood_is_refused_and_nothing_is_removed() {
    let Some(world) = World::new("gc-refused") else {
        return;
    };
    world.pod("pod");
    let before = world.snapshot();
    let good = entry("other", "eth0");
    for config in each_alone(&world) {
        let refused = |keys: &[(&str, Value)], code: u64, words: &[&str]| {
            let add = |config, (key, value): &(&str, Value)| with(&config, key, value);
            let config = keys.iter().fold(config.clone(), add);
            let case = format!("{}: {keys:?}", kind(&config));
            let answer = world.node.call_network("GC", &config, &[]);
            answer.expect_refused(&case, code, words);
            assert_eq!(world.snapshot(), before, "{case}");
        };
        refused(&[], 7, &[VALID, "cni.dev/attachments"]);
        for (list, code, word) in [
            (json!({}), 6, "sequence"),
            (json!([good, null]), 6, "null"),
            (
                json!([good, { "containerID": 1, "ifname": "eth0" }]),
                6,
                "[1].containerID",
            ),
            (json!([good, { "containerID": "pod" }]), 7, "entry 1"),
            (
                json!([good, { "containerID": "a/b", "ifname": "eth0" }]),
                7,
                "a/b",
            ),
        ] {
            refused(&[(VALID, list.clone())], code, &[VALID, word]);
            refused(
                &[("cni.dev/attachments", list)],
                code,
                &["cni.dev/attachments", word],
            );
        }
        refused(
            &[("cniVersion", json!("1.0.0")), (VALID, json!([]))],
            1,
            &[],
        );
    }
    world.expect_other_served("after all refusals");
}

#[test]
fn the_older_key_and_any_case_will_do() {
    for world in World::of_each_family("gc-keys") {
        for key in ["cni.dev/attachments", "CNI.dev/Valid-Attachments"] {
            let (pod, _) = world.pod(&key.to_lowercase().replace(['/', '.'], "-"));
            for config in configs(&world) {
                let list = json!([{ "CONTAINERID": "other", "IfName": "eth0" }]);
                world
                    .node
                    .call_network("GC", &with(&config, key, &list), &[])
                    .ok();
            }
            world.expect_bare(key, &pod);
            world.expect_untouched(key);
        }
    }
}

#[test]
fn another_interface_of_the_container_stays() {
    let Some(world) = World::dual_stack("gc-interface") else {
        return;
    };
    for (case, gone, kept) in [("second", "net1", "eth0"), ("first", "eth0", "net1")] {
        let pod = world.node.pod(case);
        let mut configs = world.configs();
        let mut lines = Vec::new();
        for (number, ifname) in [kept, gone].into_iter().enumerate() {
            let host = 9100 + u16::try_from(number).unwrap();
            let ports = json!({ "portMappings": [port(host, 80, "tcp")] });
            configs[1] = with(&configs[1], "runtimeConfig", &ports);
            configs[0]["ipam"]["routes"] = json!([]);
            world
                .node
                .add_each_with(&configs, &pod, &[("CNI_IFNAME", ifname)]);
            lines.push(world.left());
        }
        gc(&world, &[entry(&pod.id, kept)]);
        assert_eq!(world.left(), lines[0], "{case}");
        world.expect_other_served(case);
        gc(&world, &[]);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
    }
}

#[test]
fn names_as_long_as_can_be() {
    let Some(world) = World::dual_stack("gc-name") else {
        return;
    };
    let long = "x".repeat(250);
    for (case, id, ifname) in [
        ("long id", long.as_str(), "eth0"),
        ("all long", long.as_str(), "fifteen-bytes-x"),
        ("odd", "a_b.c-D", "e@1"),
    ] {
        let pod = world.node.pod("pod");
        let env = [("CNI_CONTAINERID", id), ("CNI_IFNAME", ifname)];
        world.node.add_each_with(&world.configs(), &pod, &env);
        let made = world.left();
        gc(&world, &[entry(id, ifname)]);
        assert_eq!(world.left(), made, "{case}");
        // The same but for its end.
        gc(&world, &[entry(&format!("{id}y"), ifname)]);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
        pod.namespace.remove().unwrap();
    }
}

/// By its new name nobody finds what was made under the former one, which GC still knows.
#[test]
fn what_a_renamed_network_left_goes_by_its_former_name() {
    let Some(world) = World::dual_stack("gc-renamed") else {
        return;
    };
    let (pod, former) = world.pod("pod");
    let made = world.left();
    let renamed = |config: &Value| with(config, "name", &json!("renamed"));
    let renamed: Vec<_> = former.iter().map(renamed).collect();
    for answer in world.node.del_each(&renamed, &pod, &[("CNI_NETNS", "")]) {
        answer.ok();
    }
    assert_eq!(world.left(), made);
    gc(&world, &[]);
    world.expect_bare("pod", &pod);
    world.expect_untouched("pod");
}

#[test]
fn by_the_legacy_variant_too() {
    let Some(world) = World::legacy("gc-legacy") else {
        return;
    };
    let (dead, _) = world.pod("dead");
    gc(&world, &[]);
    world.expect_bare("dead", &dead);
    world.expect_untouched("dead");
}

/// What the answers complain of.
fn complaints(answers: &[Answer]) -> Vec<String> {
    let failed = failures(answers).into_iter();
    failed.map(|answer| answer.error().1).collect()
}

#[test]
fn what_is_missing_stops_nothing_else() {
    for world in World::of_each_family("gc-missing") {
        let reservations = |world: &World| world.left().reservations;
        // No IPAM plugin: all goes but the reservation, and that is said.
        let (pod, _) = world.pod("no-ipam");
        let valid = json!([entry("other", "eth0")]);
        let mut configs = configs(&world);
        for config in &mut configs {
            *config = with(config, VALID, &valid);
        }
        let no_ipam = with(
            &configs[0],
            "ipam",
            &json!({ "type": "none", "dataDir": world.node.data }),
        );
        let calls = [&no_ipam, &configs[1], &configs[2]];
        let answers = calls.map(|config| world.node.call_network("GC", config, &[]));
        let said = complaints(&answers);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("failed to find plugin \"none\""),
            "{said:?}"
        );
        world.expect_bare("no IPAM plugin", &pod);
        let left = world.left();
        assert_eq!(
            (left.links.len(), left.rules.len(), left.reservations.len()),
            (0, 0, 1)
        );
        gc(&world, &[]);
        world.expect_untouched("the IPAM plugin is back");

        // No iptables: all goes but the rules, and that is said by whoever made them.
        let (pod, _) = world.pod("no-tools");
        let answers: Vec<_> = configs
            .iter()
            .map(|config| {
                let process = without_tools(world.node.bin.join(kind(config)));
                let path = [("PATH", "/does/not/exist")];
                world.node.call_network_as(process, "GC", config, &path)
            })
            .collect();
        let said = complaints(&answers);
        assert_eq!(said.len(), 2, "{said:?}");
        for (said, what) in said.iter().zip(["masquerade", "host port"]) {
            let network = &world.list.name;
            assert!(
                said.starts_with(&format!("{what} rules of network {network}: ")),
                "{said}"
            );
            assert!(said.contains("tables not found"), "{said}");
        }
        world.expect_bare("no iptables", &pod);
        assert_eq!(reservations(&world), [""; 0]);
        assert!(!world.left().rules.is_empty());
        gc(&world, &[]);
        world.expect_untouched("iptables is back");
    }
}

/// A reservation that cannot be removed is told of, and the others are freed.
#[test]
fn a_file_that_cannot_be_removed_stops_nothing_else() {
    let Some(world) = World::new("gc-file") else {
        return;
    };
    let (pod, _) = world.pod("pod");
    let store = world.node.data.join(&world.list.name);
    // A mount cannot be unlinked.
    let file = store.join("10.244.0.99");
    fs::write(&file, "gone\r\neth0").unwrap();
    let none = None::<&str>;
    let bound = nix::mount::mount(Some(&file), &file, none, nix::mount::MsFlags::MS_BIND, none);
    if let Err(error) = bound {
        return lab::skip(&format!("a file cannot be mounted: {error}"));
    }
    let answers = world
        .node
        .gc_each(&configs(&world), &[entry("other", "eth0")]);
    nix::mount::umount2(&file, nix::mount::MntFlags::MNT_DETACH).unwrap();
    let said = complaints(&answers);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("remove ") && said[0].contains("10.244.0.99"),
        "{said:?}"
    );
    world.expect_bare("pod", &pod);
    assert_eq!(world.left().reservations, ["10.244.0.99 gone eth0"]);
    gc(&world, &[]);
    world.expect_untouched("the file can be removed again");
}

/// As in a chain whose other plugins have no GC: the link stays, and what it sends must not be lost.
#[test]
fn shaping_goes_from_a_link_that_stays() {
    let Some(world) = World::new("gc-shaping") else {
        return;
    };
    let (pod, _) = world.pod("pod");
    let shaping = &configs(&world)[2..];
    for answer in world.node.gc_each(shaping, &[entry("other", "eth0")]) {
        answer.ok();
    }
    let left = world.left();
    assert_eq!((left.links.len(), left.qdiscs.len()), (1, 0), "{left}");
    pod.namespace.ping(at("10.244.0.1")).unwrap();
    gc(&world, &[]);
    world.expect_untouched("pod");
}

/// As the reference plugin makes them: they say nothing of their network.
#[test]
fn an_ifb_without_marks_goes_when_nothing_is_sent_through_it_any_more() {
    let Some(world) = World::new("gc-ifb") else {
        return;
    };
    let name = "bwp0123456789ab";
    let tc = |lines: &str| sh(&world.node.namespace, lines);
    let stays = |case: &str| {
        gc(&world, &[]);
        assert!(
            world.left().links.iter().any(|line| line.starts_with(name)),
            "{case}"
        );
    };
    tc(&format!(
        "ip link add {name} type ifb; ip link set {name} up"
    ));
    stays("its ADD may not have come to its end");
    tc(&format!(
        "tc qdisc add dev {name} root handle 1: tbf rate 1mbit burst 10kb limit 20kb"
    ));
    tc(&format!(
        "tc qdisc add dev cni0 handle ffff: ingress; \
         tc filter add dev cni0 parent ffff: protocol ip pref 7 u32 match ip src 192.0.2.77 \
         action mirred egress redirect dev {name}"
    ));
    stays("some packets are sent through it");
    tc("tc qdisc del dev cni0 ingress");
    for (case, other) in [
        ("another name", "bwp-0123456789a"),
        ("a mark", "bwp0123456789ac"),
    ] {
        tc(&format!(
            "ip link add {other} type ifb; ip link set {other} alias mine"
        ));
        tc(&format!(
            "tc qdisc add dev {other} root handle 1: tbf rate 1mbit burst 10kb limit 20kb"
        ));
        gc(&world, &[]);
        assert!(world.left().links[0].starts_with(other), "{case}");
        tc(&format!("ip link del {other}"));
    }
    world.expect_untouched("unused");
}

#[test]
fn flows_of_a_dead_pod_s_udp_port_end() {
    let Some(site) = Site::new("gc-flow", &[("", json!({ "cniVersion": "1.1.0" }))]) else {
        return;
    };
    let node = ["192.0.2.10:5353", "[2001:db8::10]:5353"];
    let clients = node.map(|target| site.outside.udp_client(at(target)).unwrap());
    let pod = site.pod("pod", &[port(5353, 80, "udp")]);
    for client in &clients {
        assert!(pod.answered(&client.ask().unwrap()));
    }
    let configs = site.node.configs(&site.list, &Value::Null);
    for answer in site.node.gc_each(&configs, &[]) {
        answer.ok();
    }
    let _servers = node.map(|own| site.node.namespace.serve_udp(at(own)).unwrap());
    for (client, own) in clients.iter().zip(node) {
        assert_eq!(client.ask().unwrap().local, at(own));
    }
}
