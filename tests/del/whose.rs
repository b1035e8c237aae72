//! DEL of one attachment leaves all others alone, whatever they have in common with it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Pod, World, kind, with};

/// ADD of each plugin with variables replaced; the configurations that a runtime has then.
fn add(world: &World, pod: &Pod, configs: &[Value], env: &[(&str, &str)]) -> Vec<Value> {
    let mut result = Value::Null;
    for config in configs {
        let config = with(config, "prevResult", &result);
        let added = world.node.call(kind(&config), "ADD", pod, &config, env);
        result = added.ok().clone();
    }
    let with_result = |config| with(config, "prevResult", &result);
    configs.iter().map(with_result).collect()
}

fn check(world: &World, pod: &Pod, configs: &[Value], env: &[(&str, &str)]) {
    for config in configs {
        let checked = world.node.call(kind(config), "CHECK", pod, config, env);
        checked.ok();
    }
}

/// What a runtime is asked for a second interface.
fn second(configs: &[Value]) -> Vec<Value> {
    let mut configs = configs.to_vec();
    let port = json!([{ "hostPort": 9180, "containerPort": 80, "protocol": "tcp" }]);
    configs[1] = with(
        &configs[1],
        "runtimeConfig",
        &json!({ "portMappings": port }),
    );
    // One default route is enough.
    configs[0]["ipam"]["routes"] = json!([]);
    configs
}

#[test]
fn another_interface_of_the_container_stays() {
    let Some(world) = World::dual_stack("whose-interface") else {
        return;
    };
    let (eth0, net1) = (&[("CNI_IFNAME", "eth0")], &[("CNI_IFNAME", "net1")]);
    let nothing = world.snapshot();
    for (case, keep_first) in [("the-first", true), ("the-second", false)] {
        let pod = world.node.pod(case);
        let of_eth0 = add(&world, &pod, &world.configs(), eth0);
        let first = world.snapshot();
        let of_net1 = add(&world, &pod, &second(&world.configs()), net1);
        let both = world.snapshot();
        check(&world, &pod, &of_eth0, eth0);
        check(&world, &pod, &of_net1, net1);

        let (gone, kept) = if keep_first {
            ((&of_net1, net1), (&of_eth0, eth0))
        } else {
            ((&of_eth0, eth0), (&of_net1, net1))
        };
        for env in [gone.1.to_vec(), [gone.1[0], ("CNI_NETNS", "")].to_vec()] {
            world.del(case, gone.0, &pod, &env);
            let expected = if keep_first {
                first.since(&nothing)
            } else {
                both.since(&first)
            };
            assert_eq!(world.left(), expected, "{case}");
            check(&world, &pod, kept.0, kept.1);
        }
        world.del(case, kept.0, &pod, kept.1);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
    }
}

/// DEL of attachments that never were, in the namespace of one that is.
#[test]
fn strangers_find_nothing() {
    for world in World::of_each_family("whose-stranger") {
        let netns = world.other.namespace.path().display().to_string();
        let known = world.node.pod("known");
        for (case, env) in [
            (
                "another interface",
                [("CNI_CONTAINERID", "other"), ("CNI_IFNAME", "net7")],
            ),
            (
                "another container",
                [("CNI_CONTAINERID", "stranger"), ("CNI_IFNAME", "eth0")],
            ),
            (
                "its loopback",
                [("CNI_CONTAINERID", "other"), ("CNI_IFNAME", "lo")],
            ),
        ] {
            let env = [&env[..], &[("CNI_NETNS", netns.as_str())]].concat();
            world.del(case, &world.configs(), &known, &env);
            world.expect_untouched(case);
        }
        // Another network's, of the same container and interface.
        let renamed = |config: &Value| with(config, "name", &json!("elsewhere"));
        let configs: Vec<_> = world.configs().iter().map(renamed).collect();
        world.del("another network", &configs, &world.other, &[]);
        world.expect_untouched("another network");
    }
}

#[test]
fn names_as_long_as_can_be() {
    let Some(world) = World::dual_stack("whose-name") else {
        return;
    };
    let long = "x".repeat(250);
    for (case, id, ifname) in [
        ("long id", long.as_str(), "eth0"),
        ("long interface", "id", "fifteen-bytes-x"),
        ("all long", long.as_str(), "fifteen-bytes-x"),
        ("odd", "a_b.c-D", "e@1"),
    ] {
        let pod = world.node.pod("pod");
        let env = [("CNI_CONTAINERID", id), ("CNI_IFNAME", ifname)];
        let configs = add(&world, &pod, &world.configs(), &env);
        check(&world, &pod, &configs, &env);
        let lost = [env[0], env[1], ("CNI_NETNS", "")];
        world.del(case, &configs, &pod, &lost);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
        pod.namespace.remove().unwrap();
    }
}

/// A pod of layer 2 has neither address nor rules; its link goes all the same.
#[test]
fn a_pod_without_addresses() {
    let Some(world) = World::new("whose-layer2") else {
        return;
    };
    let config = with(&world.configs()[0], "ipam", &Value::Null);
    for (case, env) in [
        ("netns", &[][..]),
        ("no netns", &[("CNI_NETNS", "")]),
        ("no such netns", &[("CNI_NETNS", "/run/netns/of-nobody")]),
    ] {
        let pod = world.node.pod("pod");
        let configs = add(&world, &pod, std::slice::from_ref(&config), &[]);
        assert!(!world.left().is_empty(), "{case}");
        world.del(case, &configs, &pod, env);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
        pod.namespace.remove().unwrap();
    }
}
