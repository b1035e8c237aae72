//! Host ports and rates that are refused leave everything as the bridge made it, say why, and DEL
//! of the whole chain leaves nothing.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Pod, World, with};

/// Keys of a plugin's configuration, the code, and what the message says.
type Refusal = (Value, u64, &'static [&'static str]);

/// Replaces keys.
fn changed(config: &Value, keys: &Value) -> Value {
    let keys = keys.as_object().unwrap().iter();
    keys.fold(config.clone(), |config, (key, value)| {
        with(&config, key, value)
    })
}

/// ADD of the chain's plugin of that index, after those before it; each must be refused and change
/// nothing. Then DEL of the chain leaves nothing.
fn refuse(world: &World, index: usize, table: &[Refusal]) {
    let configs = world.configs();
    let pod = world.node.pod("pod");
    let result = world.node.add_each(&configs[..index], &pod);
    let base = with(&configs[index], "prevResult", &result);
    let before = world.snapshot();
    for (keys, code, words) in table {
        let config = changed(&base, keys);
        refuse_once(world, &pod, &config, &[], *code, words);
        assert_eq!(world.snapshot(), before, "{keys}");
    }
    world.del("at the end", &configs, &pod, &[]);
    world.expect_bare("at the end", &pod);
    world.expect_untouched("at the end");
}

fn refuse_once(
    world: &World,
    pod: &Pod,
    config: &Value,
    env: &[(&str, &str)],
    code: u64,
    words: &[&str],
) {
    let answer = world
        .node
        .call(tests::kind(config), "ADD", pod, config, env);
    answer.expect_refused(&config.to_string(), code, words);
}

/// `runtimeConfig` with one port.
fn port(port: Value) -> Value {
    json!({ "runtimeConfig": { "portMappings": [port] } })
}

#[test]
fn ports_that_are_none() {
    let Some(world) = World::new("refused-port") else {
        return;
    };
    let table: [Refusal; 9] = [
        (
            port(json!({ "hostPort": 0, "containerPort": 80 })),
            7,
            &[
                "Invalid host port number: 0",
                "portMappings[0].hostPort",
                "1 to 65535",
            ],
        ),
        (
            port(json!({ "hostPort": 65536, "containerPort": 80 })),
            7,
            &["Invalid host port number: 65536", "hostPort"],
        ),
        (
            port(json!({ "hostPort": -1, "containerPort": 80 })),
            7,
            &["Invalid host port number: -1", "hostPort"],
        ),
        (
            port(json!({ "hostPort": 80, "containerPort": 0 })),
            7,
            &["Invalid container port number: 0", "containerPort"],
        ),
        (
            port(json!({ "hostPort": 80, "containerPort": 65536 })),
            7,
            &["Invalid container port number: 65536", "containerPort"],
        ),
        (
            port(json!({ "hostPort": "80", "containerPort": 80 })),
            6,
            &["hostPort", "\"80\""],
        ),
        (
            port(json!({ "hostPort": 80, "containerPort": 80, "protocol": "bogus" })),
            7,
            &[
                "Invalid protocol: \"bogus\"",
                "protocol",
                "tcp, udp or sctp",
            ],
        ),
        (
            port(json!({ "hostPort": 80, "containerPort": 80, "hostIP": "nowhere" })),
            7,
            &["Invalid host IP: \"nowhere\"", "hostIP"],
        ),
        (
            json!({ "runtimeConfig": { "portMappings": "80:80" } }),
            6,
            &["portMappings", "\"80:80\""],
        ),
    ];
    refuse(&world, 1, &table);
}

#[test]
fn keys_of_portmap_that_are_none() {
    let Some(world) = World::dual_stack("refused-portmap") else {
        return;
    };
    let table: [Refusal; 12] = [
        (
            json!({ "markMasqBit": 32 }),
            7,
            &["MasqMarkBit must be between 0 and 31", "markMasqBit"],
        ),
        (
            json!({ "markMasqBit": -1 }),
            7,
            &["MasqMarkBit must be between 0 and 31", "markMasqBit"],
        ),
        (
            json!({ "markMasqBit": 5, "externalSetMarkChain": "KUBE-MARK-MASQ" }),
            7,
            &["Cannot specify externalSetMarkChain and markMasqBit"],
        ),
        (
            json!({ "externalSetMarkChain": "NO-SUCH-CHAIN" }),
            100,
            &["NO-SUCH-CHAIN"],
        ),
        (
            json!({ "externalSetMarkChain": "a b" }),
            7,
            &["Invalid chain name: \"a b\"", "externalSetMarkChain"],
        ),
        (
            json!({ "backend": "pf" }),
            7,
            &["unrecognized backend \"pf\""],
        ),
        (
            json!({ "conditionsV4": ["ip", "saddr"] }),
            7,
            &["iptables backend was requested", "conditionsV4"],
        ),
        (
            json!({ "conditionsV4": ["--no-such-option", "x"] }),
            7,
            &[
                "unable to setup DNAT",
                "conditionsV4: [\"--no-such-option\", \"x\"]; allowed: ",
            ],
        ),
        (
            json!({ "conditionsV6": ["-s", "10.0.0.0/33"], "conditionsV4": ["-i", "eth0"] }),
            7,
            &["conditionsV6: [\"-s\", \"10.0.0.0/33\"]; allowed: "],
        ),
        (json!({ "snat": "yes" }), 6, &["snat", "\"yes\""]),
        (
            json!({ "prevResult": null }),
            7,
            &["must be called as chained plugin"],
        ),
        (
            json!({ "prevResult": { "cniVersion": "0.4.0" } }),
            6,
            &["could not parse prevResult", "0.4.0"],
        ),
    ];
    refuse(&world, 1, &table);
}

#[test]
fn rates_that_are_none() {
    let Some(world) = World::new("refused-rate") else {
        return;
    };
    let table: [Refusal; 7] = [
        (
            json!({ "ingressRate": 8000 }),
            7,
            &[
                "if rate is set, burst must also be set",
                "ingressRate",
                "8000",
            ],
        ),
        (
            json!({ "egressRate": 8000 }),
            7,
            &[
                "if rate is set, burst must also be set",
                "egressRate",
                "8000",
            ],
        ),
        (
            json!({ "ingressBurst": 8000 }),
            7,
            &[
                "if burst is set, rate must also be set",
                "ingressBurst",
                "8000",
            ],
        ),
        (
            json!({ "egressRate": 8000, "egressBurst": 34_359_738_360_u64 }),
            7,
            &[
                "burst cannot be more than 4GB",
                "egressBurst",
                "34359738360",
            ],
        ),
        (
            json!({ "ingressRate": 8000, "ingressBurst": u64::MAX }),
            7,
            &["burst cannot be more than 4GB", "18446744073709551615"],
        ),
        (
            json!({ "ingressRate": 7, "ingressBurst": 8000 }),
            7,
            &["rate must be at least 8 bit/s", "ingressRate"],
        ),
        (
            json!({ "egressRate": u64::MAX, "egressBurst": 1 }),
            7,
            &["at most 36028797018963968 bit/s", "18446744073709551615"],
        ),
    ];
    refuse(&world, 2, &table);
}

#[test]
fn keys_of_bandwidth_that_are_none() {
    let Some(world) = World::new("refused-bandwidth") else {
        return;
    };
    let table: [Refusal; 8] = [
        (json!({ "ingressRate": -1 }), 6, &["ingressRate", "-1"]),
        (
            json!({ "egressBurst": "1M" }),
            6,
            &["egressBurst", "\"1M\""],
        ),
        (json!({ "egressRate": 1.5 }), 6, &["egressRate", "1.5"]),
        (
            json!({ "runtimeConfig": { "bandwidth": { "ingressRate": 8000 } } }),
            7,
            &["if rate is set, burst must also be set"],
        ),
        (
            json!({ "runtimeConfig": { "bandwidth": { "ingressRate": "8000" } } }),
            6,
            &["ingressRate", "\"8000\""],
        ),
        (
            json!({ "ShapedSubnets": ["10.0.0.0/8"] }),
            2,
            &["shapedSubnets: [\"10.0.0.0/8\"] is not supported"],
        ),
        (
            json!({ "runtimeConfig": { "bandwidth": { "unshapedSubnets": ["::/0"] } } }),
            2,
            &["runtimeConfig.bandwidth.unshapedSubnets: [\"::/0\"] is not supported"],
        ),
        (
            json!({ "prevResult": null }),
            7,
            &["must be called as chained plugin"],
        ),
    ];
    refuse(&world, 2, &table);
}

/// What the kernel would refuse only after the shaping of before has made room.
#[test]
fn a_refused_rate_leaves_the_shaping_of_before() {
    let Some(world) = World::new("refused-again") else {
        return;
    };
    let configs = world.configs();
    let pod = world.node.pod("pod");
    let result = world.node.add_each(&configs[..2], &pod);
    let base = with(&configs[2], "prevResult", &result);
    let shaped = json!({
        "ingressRate": 8_000_000, "ingressBurst": 800_000,
        "egressRate": 8_000_000, "egressBurst": 800_000,
    });
    let shaped = changed(&base, &shaped);
    world.node.call("bandwidth", "ADD", &pod, &shaped, &[]).ok();
    let before = world.snapshot();
    for (rate, burst) in [(1_u64 << 63, 1_u64 << 31), (u64::MAX, 1)] {
        for direction in ["ingress", "egress"] {
            let keys =
                json!({ format!("{direction}Rate"): rate, format!("{direction}Burst"): burst });
            let words = ["rate must be at most", direction, &rate.to_string()];
            refuse_once(&world, &pod, &changed(&base, &keys), &[], 7, &words);
            assert_eq!(world.snapshot(), before, "{keys}");
        }
    }
    let subnets = json!({ "shapedSubnets": ["10.0.0.0/8"], "ingressRate": "x" });
    let config = changed(&base, &subnets);
    world.node.call("bandwidth", "DEL", &pod, &config, &[]).ok();
    world.del("at the end", &configs, &pod, &[]);
    world.expect_untouched("at the end");
}

#[test]
fn a_place_where_nothing_can_be_shaped() {
    let Some(world) = World::new("refused-place") else {
        return;
    };
    let configs = world.configs();
    let pod = world.node.pod("pod");
    let result = world.node.add_each(&configs[..2], &pod);
    let base = with(&configs[2], "prevResult", &result);
    let before = world.snapshot();
    let refuse = |keys: Value, env: &[(&str, &str)], code, words: &[&str]| {
        refuse_once(&world, &pod, &changed(&base, &keys), env, code, words);
        assert_eq!(world.snapshot(), before, "{keys} {env:?}");
    };
    let others = json!({ "prevResult": world.other_result });
    refuse(
        others,
        &[],
        100,
        &["no veth peer of container interface found in host ns"],
    );
    let none = json!({ "prevResult": { "cniVersion": "1.0.0" } });
    refuse(none, &[], 7, &["no interfaces provided"]);
    let missing = [("CNI_IFNAME", "eth7")];
    refuse(
        json!({}),
        &missing,
        100,
        &["container interface eth7 has no veth peer"],
    );
    let loopback = [("CNI_IFNAME", "lo")];
    refuse(
        json!({}),
        &loopback,
        100,
        &["container interface lo has no veth peer"],
    );
    for netns in ["/run/netns/of-nobody", "/etc/passwd", "/proc/self/ns/net"] {
        refuse(json!({}), &[("CNI_NETNS", netns)], 4, &["CNI_NETNS", netns]);
    }
    world.del("at the end", &configs, &pod, &[]);
    world.expect_untouched("at the end");
}

/// What a runtime does: ADD until one plugin refuses, then DEL of all.
#[test]
fn a_chain_that_fails_half_way_is_taken_back_by_del() {
    for world in World::of_each_family("refused-half") {
        let port = |host_port: u32| json!({ "hostPort": host_port, "containerPort": 80 });
        let table = [
            (
                "portmap",
                json!({ "portMappings": [port(9080), port(70000)] }),
            ),
            (
                "bandwidth",
                json!({
                    "portMappings": [port(9080)],
                    "bandwidth": { "ingressRate": 8000, "ingressBurst": 8000, "egressRate": 8000 }
                }),
            ),
        ];
        for (plugin, asked) in table {
            let pod = world.node.pod(plugin);
            let error = world.node.add(&world.list, &pod, asked).unwrap_err();
            let named = format!("plugin type=\"{plugin}\" failed (add): ");
            assert!(error.msg.starts_with(&named), "{error}");
            assert_eq!(error.code, 7, "{error}");
            world.node.del(&world.list, &pod).unwrap();
            world.expect_bare(plugin, &pod);
            world.expect_untouched(plugin);
        }
    }
}
