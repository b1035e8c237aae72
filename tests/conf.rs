//! The conflists that the project ships are served as they stand.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::{Value, json};
use tests::{Node, expect_none, kind, with};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf");

fn conflists() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".conflist"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_conflist_is_as_the_schema_says() {
    let schema = schemas::shipped("conflist");
    for name in conflists() {
        let text = std::fs::read(Path::new(FOLDER).join(name)).unwrap();
        let list = serde_json::from_slice(&text).unwrap();
        expect_none(schemas::flaws(&schema, &list));
    }
}

#[test]
fn every_conflist_makes_a_pod_checks_it_and_unmakes_it() {
    let names = conflists();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        let Some(node) = Node::new("conf") else {
            return;
        };
        // A route for the ports' way back, and what a node has.
        let _outside = node.outside();
        let list = node.conflist(&name);
        let asked = json!({
            "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
            "bandwidth": { "ingressRate": 8000000, "ingressBurst": 800000 }
        });
        // What all pods share stays after the first.
        let first = node.pod("first");
        node.add(&list, &first, asked.clone()).unwrap();
        node.del(&list, &first).unwrap();
        let before = node.snapshot(&list.name);

        let pod = node.pod("second");
        let added = node.add(&list, &pod, asked);
        let added = added.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!added.ips.is_empty(), "{name}");
        node.check(&list, &pod)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        node.del(&list, &pod)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(node.snapshot(&list.name), before, "{name}");
    }
}

/// Keys that are the runtime's, or that nobody knows.
#[test]
fn what_a_plugin_does_not_know_is_ignored() {
    let Some(node) = Node::new("conf-foreign") else {
        return;
    };
    let unknown = json!({
        "$schema": "conflist.schema.json",
        "cniVersions": ["1.0.0", "1.1.0"], "disableCheck": true, "disableGC": true,
        "loadOnlyInlinedPlugins": true, "capabilities": { "mac": true }, "cni.dev/x": [5],
        "Unknown": { "key": [] }
    });
    let list = node.conflist("10-k8nd.conflist");
    let asked = json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
        "bandwidth": { "ingressRate": 8000000, "ingressBurst": 800000 }
    });
    let pod = node.pod("pod");
    let mut configs = node.configs(&list, &asked);
    for config in &mut configs {
        config
            .as_object_mut()
            .unwrap()
            .extend(unknown.as_object().unwrap().clone());
    }
    let result = node.add_each(&configs, &pod);
    for config in &configs {
        let config = with(config, "prevResult", &result);
        node.call(kind(&config), "CHECK", &pod, &config, &[]).ok();
    }
    for answer in node.del_each(&configs, &pod, &[]) {
        answer.ok();
    }
}

/// What people copy: the chain in its order, and a way out for the pods.
#[test]
fn the_first_conflist_is_the_three_plugins_with_a_default_route() {
    let file = Path::new(FOLDER).join("10-k8nd.conflist");
    let list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(list["cniVersion"], "1.0.0");
    assert_eq!(list["name"], "k8nd-pod-network");
    let plugins = list["plugins"].as_array().unwrap();
    let types: Vec<&Value> = plugins.iter().map(|plugin| &plugin["type"]).collect();
    assert_eq!(types, ["bridge", "portmap", "bandwidth"]);
    for key in ["isGateway", "ipMasq", "hairpinMode"] {
        assert_eq!(plugins[0][key], true, "{key}");
    }
    let ipam = json!({
        "type": "host-local",
        "subnet": "10.244.0.0/24",
        "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "10.244.0.0/16" }]
    });
    assert_eq!(plugins[0]["ipam"], ipam);
    let capability = |at: usize| &plugins[at]["capabilities"];
    assert_eq!(capability(1), &json!({ "portMappings": true }));
    assert_eq!(capability(2), &json!({ "bandwidth": true }));
}
