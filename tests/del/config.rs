//! DEL cleans, whatever has become of the configuration and of what the runtime says beside it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Pod, World, failures, with};

/// What became of the configurations of a chain.
type Change = fn(&World, &mut Value);

/// Calls DEL with changed configurations, once with the pod's namespace and once without.
fn del_with(world: &World, table: &[(&str, Change)]) {
    for (number, (case, change)) in table.iter().enumerate() {
        for (suffix, env) in [("", &[][..]), ("-no-netns", &[("CNI_NETNS", "")][..])] {
            let case = format!("{case}{suffix}");
            let (pod, mut configs) = world.pod(&format!("pod{number}{suffix}"));
            configs.iter_mut().for_each(|config| change(world, config));
            world.del(&case, &configs, &pod, env);
            world.expect_bare(&case, &pod);
            world.expect_untouched(&case);
            // Now the pod has nothing more that another's could be mistaken for.
            world.del(&format!("{case}, again"), &configs, &pod, env);
            world.expect_untouched(&format!("{case}, again"));
        }
    }
}

fn set(config: &mut Value, key: &str, value: Value) {
    *config = with(config, key, &value);
}

/// Of one plugin only.
fn set_of(kind: &str, config: &mut Value, key: &str, value: Value) {
    if config["type"] == kind {
        set(config, key, value);
    }
}

#[test]
fn whatever_prev_result_says() {
    for world in World::of_each_family("del-result") {
        let table: [(&str, Change); 9] = [
            ("none", |_, config| set(config, "prevResult", Value::Null)),
            ("a number", |_, config| set(config, "prevResult", json!(5))),
            ("empty", |_, config| set(config, "prevResult", json!({}))),
            ("of another family of versions", |_, config| {
                config["prevResult"]["cniVersion"] = json!("0.4.0");
            }),
            ("of no version", |_, config| {
                config["prevResult"]["cniVersion"] = json!("9.9.9");
            }),
            ("of wrong types", |_, config| {
                let garbage = json!({ "interfaces": "x", "ips": [{ "address": 7 }], "routes": {} });
                set(config, "prevResult", garbage);
            }),
            ("of no addresses", |_, config| {
                config["prevResult"]["ips"] = json!([]);
            }),
            ("of links of the node", |_, config| {
                let links = ["eth0", "lo", "cni0"].map(|name| json!({ "name": name, "mac": "" }));
                config["prevResult"]["interfaces"] = json!(links);
            }),
            ("another pod's", |world, config| {
                set(config, "prevResult", world.other_result.clone());
            }),
        ];
        del_with(&world, &table);
    }
}

#[test]
fn whatever_keys_are_missing() {
    for world in World::of_each_family("del-missing") {
        let table: [(&str, Change); 6] = [
            ("no capabilities", |_, config| {
                set(config, "runtimeConfig", Value::Null);
            }),
            ("neither capabilities nor result", |_, config| {
                set(config, "runtimeConfig", Value::Null);
                set(config, "prevResult", Value::Null);
            }),
            ("no ranges", |_, config| {
                if let Some(ipam) = config.get_mut("ipam").and_then(Value::as_object_mut) {
                    ipam.remove("subnet");
                    ipam.remove("routes");
                }
            }),
            ("no masquerade and no gateway", |_, config| {
                set(config, "ipMasq", Value::Null);
                set(config, "isGateway", Value::Null);
            }),
            ("another bridge", |_, config| {
                set_of("bridge", config, "bridge", json!("cni7"));
            }),
            ("no version", |_, config| {
                set_of("bridge", config, "cniVersion", Value::Null);
                set_of("portmap", config, "cniVersion", Value::Null);
            }),
        ];
        del_with(&world, &table);
    }
}

#[test]
fn whatever_keys_of_the_bridge_say() {
    for world in World::of_each_family("del-bridge") {
        let table: [(&str, Change); 6] = [
            ("wrong types of bridge", |_, config| {
                for (key, value) in [
                    ("bridge", json!(5)),
                    ("mtu", json!("x")),
                    ("vlan", json!({})),
                    ("vlanTrunk", json!("x")),
                    ("ipMasq", json!("yes")),
                    ("hairpinMode", json!([])),
                    ("dns", json!(7)),
                    ("args", json!("x")),
                ] {
                    set_of("bridge", config, key, value);
                }
            }),
            ("a bridge that cannot be", |_, config| {
                set_of("bridge", config, "bridge", json!("../a very long name"));
            }),
            ("a vlan that ADD refuses", |_, config| {
                set_of("bridge", config, "vlan", json!(100));
            }),
            ("a vlan that is none", |_, config| {
                set_of("bridge", config, "vlan", json!(9999));
                set_of("bridge", config, "vlanTrunk", json!([{ "minID": 5 }]));
            }),
            ("other keys that ADD refuses", |_, config| {
                for (key, value) in [
                    ("mtu", json!(-1)),
                    ("macspoofchk", json!(true)),
                    ("ipMasqBackend", json!("pf")),
                    ("promiscMode", json!(true)),
                    ("disableContainerInterface", json!(true)),
                    ("args", json!({ "cni": { "mac": "zz" } })),
                ] {
                    set_of("bridge", config, key, value);
                }
            }),
            ("ranges that are none", |_, config| {
                if let Some(ipam) = config.get_mut("ipam") {
                    ipam["subnet"] = json!("10.244.0.0/99");
                    ipam["ranges"] = json!("x");
                    ipam["rangeStart"] = json!({});
                    ipam["resolvConf"] = json!("/does/not/exist");
                }
            }),
        ];
        del_with(&world, &table);
    }
}

#[test]
fn whatever_ports_and_rates_say() {
    for world in World::of_each_family("del-asked") {
        let table: [(&str, Change); 4] = [
            ("ports that are none", |_, config| {
                set_of(
                    "portmap",
                    config,
                    "runtimeConfig",
                    json!({ "portMappings": "8080:80" }),
                );
                set_of("portmap", config, "markMasqBit", json!(99));
                set_of("portmap", config, "backend", json!("pf"));
                set_of("portmap", config, "conditionsV4", json!(["a"]));
            }),
            ("some ports that are none", |_, config| {
                let ports = json!([{ "hostPort": 0 }, { "hostPort": "x" }, 7, { "hostIP": "?" }]);
                set_of(
                    "portmap",
                    config,
                    "runtimeConfig",
                    json!({ "portMappings": ports }),
                );
            }),
            ("rates that are none", |_, config| {
                set_of("bandwidth", config, "ingressRate", json!(-1));
                set_of("bandwidth", config, "egressBurst", json!("fast"));
            }),
            ("runtimeConfig that is none", |_, config| {
                set(config, "runtimeConfig", json!([7]));
            }),
        ];
        del_with(&world, &table);
    }
}

#[test]
fn whatever_the_environment_says_beside() {
    for world in World::of_each_family("del-env") {
        for (number, args) in [
            ";",
            "IP",
            "K8S_POD_NAME=x",
            "IgnoreUnknown=yes",
            "MAC=zz;IP=a/b",
        ]
        .iter()
        .enumerate()
        {
            let case = format!("CNI_ARGS={args}");
            let (pod, configs) = world.pod(&format!("pod{number}"));
            world.del(&case, &configs, &pod, &[("CNI_ARGS", args)]);
            world.expect_untouched(&case);
        }
    }
}

/// Without its section nobody can say whether there is an IPAM, which one, or where it keeps its
/// reservations; all else is gone.
#[test]
fn without_the_ipam_section_only_the_reservation_stays() {
    for world in World::of_each_family("del-ipam") {
        for (number, ipam) in [Value::Null, json!({}), json!("x"), json!({ "type": 5 })]
            .iter()
            .enumerate()
        {
            let case = format!("ipam: {ipam}");
            let (pod, configs) = world.pod(&format!("pod{number}"));
            let mut changed = configs.clone();
            set_of("bridge", &mut changed[0], "ipam", ipam.clone());
            world.del(&case, &changed, &pod, &[]);
            let left = world.left();
            assert_eq!(left.reservations, [reservation(&configs, &pod)], "{case}");
            let rest = left.filter(|line| line != reservation(&configs, &pod));
            assert!(rest.is_empty(), "{case}: left:\n{rest}");

            world.del(&case, &configs, &pod, &[]);
            world.expect_untouched(&case);
        }
    }
}

/// An IPAM that is named and cannot be called: its address is not free, and DEL says so.
#[test]
fn without_the_ipam_plugin_the_error_names_the_reservation() {
    for world in World::of_each_family("del-no-ipam") {
        let empty = world.node.folder().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let empty = empty.display().to_string();
        let cases = [
            (&*empty, ["\"host-local\"", &*empty]),
            ("", ["\"host-local\"", "no paths provided"]),
        ];
        for (at, (path, words)) in cases.into_iter().enumerate() {
            let (pod, configs) = world.pod(&format!("pod{at}"));
            let answers = world.node.del_each(&configs, &pod, &[("CNI_PATH", path)]);
            let failed = failures(&answers);
            assert_eq!(failed.len(), 1, "{answers:?}");
            let (code, message) = failed[0].error();
            assert_eq!(code, 4, "{message}");
            let whose = format!("{}/pod{at}/eth0", world.list.name);
            for words in [words[0], words[1], &whose] {
                assert!(message.contains(words), "{words}: {message}");
            }
            let left = world.left();
            assert_eq!(left.to_string().trim(), reservation(&configs, &pod));
            world.del("with it", &configs, &pod, &[]);
        }
        world.expect_untouched("with it");
    }
}

/// As a snapshot tells it.
fn reservation(configs: &[Value], pod: &Pod) -> String {
    let address = tests::address(&configs[0]["prevResult"]);
    format!("{address} {} {}", pod.id, pod.ifname)
}
