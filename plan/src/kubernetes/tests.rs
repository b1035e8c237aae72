use serde_json::json;

use super::*;
use crate::keys::ClusterKeys;
use crate::{Cluster, Merge, Plan};

/// A node as the API has it, with much that nobody asks for.
fn object(name: &str, address: &str, ranges: &[&str]) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "uid": "x", "managedFields": [{ "f:status": { "a": [[]] } }] },
        "spec": {},
        "status": {
            "addresses": [
                { "address": name, "type": "Hostname" },
                { "address": "198.51.100.7", "type": "ExternalIP" },
                { "address": address, "type": "InternalIP" },
            ],
            "allocatable": { "cpu": "2", "memory": "8041052Ki", "pods": "30" },
            "conditions": [{ "status": "True" }],
        },
    });
    for field in 0..1000 {
        object["status"][format!("field{field}")] = json!({ "more": [field, null, "text"] });
    }
    if let Some(first) = ranges.first() {
        object["spec"] = json!({ "podCIDR": first, "podCIDRs": ranges });
    }
    object
}

fn list(items: &[Value]) -> String {
    json!({ "kind": "List", "metadata": { "resourceVersion": "" }, "items": items }).to_string()
}

#[test]
fn a_list_with_a_thousand_fields_more() {
    let text = list(&[
        object("node-2", "10.0.0.2", &["10.244.0.0/24"]),
        object("node-1", "10.0.0.1", &[]),
    ]);
    let given = nodes("nodes.json", &text).unwrap();
    let mut document = Document::parse("c", "podSubnet: 10.244.0.0/16").unwrap();
    check_agreement(&document, &given).unwrap();
    document.add_nodes(given, Merge::Under);
    let plan = Plan::new(Cluster::new(document.read().unwrap()).unwrap()).unwrap();
    let text = crate::podcidrs::text(&plan);
    assert_eq!(text, "node-1 10.244.1.0/24\nnode-2 10.244.0.0/24\n");
    let (node, _) = plan.node("node-1").unwrap();
    assert_eq!((node.pod_limit, node.addresses.len()), (30, 1));
    assert_eq!(node.address(true).unwrap().to_string(), "10.0.0.1");

    let single = nodes("n", &object("a", "10.0.0.1", &[]).to_string()).unwrap();
    assert_eq!(single[0].name, "a");
}

#[test]
fn what_is_set_cannot_be_planned_anew() {
    let given = nodes("n", &list(&[object("a", "10.0.0.1", &["10.244.7.0/24"])])).unwrap();
    let file = |range: &str| {
        let text = format!("podSubnet: 10.244.0.0/16\nnodes:\n- name: a\n  podCIDR: {range}\n");
        Document::parse("c", &text).unwrap()
    };
    check_agreement(&file("10.244.7.0/24"), &given).unwrap();
    let error = check_agreement(&file("10.244.8.0/24"), &given).unwrap_err();
    let said = "c:4: nodes[0].podCIDR: \"10.244.8.0/24\", but the cluster has given \
                [\"10.244.7.0/24\"] already";
    assert!(error.to_string().starts_with(said), "{error}");
}

#[test]
fn refusals() {
    let nameless = json!({ "items": [{ "metadata": { "name": "a" } }, {}] }).to_string();
    for (text, said) in [
        (
            "{\n",
            "n:2: not what `kubectl get nodes -o json` prints: EOF",
        ),
        ("a b", "n:1: not what"),
        (
            "{\n\"items\": [{\"metadata\": {\"name\": 3}}]}",
            "n:2: items[0].metadata.name: not what",
        ),
        ("{}", "n: items[0].metadata.name: missing"),
        (&nameless, "n: items[1].metadata.name: missing"),
        (
            &list(&[object("a", "10.0.0.1", &[]), object("a", "10.0.0.2", &[])]),
            "n: items[1].metadata.name: \"a\" is the name of two nodes",
        ),
    ] {
        let error = nodes("n", text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
    // What the API could not have is refused as the file's own would be.
    let given = nodes("n", &list(&[object("a", "10.0.0.1.5", &[])])).unwrap();
    let mut document = Document::empty();
    document.add_nodes(given, Merge::Under);
    let error = document.read::<ClusterKeys>().unwrap_err().to_string();
    assert!(
        error.starts_with("n: node a: \"10.0.0.1.5\" is neither"),
        "{error}"
    );
}

#[test]
fn what_the_api_could_not_have_said_is_refused() {
    let with = |key: &str, value: Value| {
        let mut node = object("a", "10.0.0.1", &["10.244.7.0/24"]);
        *node.pointer_mut(key).unwrap() = value;
        node
    };
    let pod = with("/kind", json!("Pod"));
    for (text, said) in [
        (pod.to_string(), "n: kind: \"Pod\" is no kind of this file"),
        (
            json!({ "kind": "PodList", "items": [object("a", "10.0.0.1", &[])] }).to_string(),
            "n: kind: \"PodList\" is no kind",
        ),
        (
            list(&[object("b", "10.0.0.2", &[]), pod]),
            "n: items[1].kind: \"Pod\"",
        ),
        (
            list(&[with("/status/allocatable/pods", json!("x"))]),
            "n: items[0].status.allocatable.pods: \"x\" is no quantity",
        ),
        (
            with("/status/allocatable/pods", json!("-1")).to_string(),
            "n: status.allocatable.pods: \"-1\" is no number of pods",
        ),
        (
            with("/spec/podCIDR", json!("10.244.8.0/24")).to_string(),
            "n: spec.podCIDR: \"10.244.8.0/24\", but the first of podCIDRs is \"10.244.7.0/24\"",
        ),
        (
            "[]".to_owned(),
            "n:1: not what `kubectl get nodes -o json` prints: invalid length 0, expected a Node or a \
             List of them",
        ),
    ] {
        let error = nodes("n", &text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn what_the_api_says_in_other_ways_is_read() {
    let mut node = object("a", "10.0.0.1", &[]);
    node["spec"] = json!({ "podCIDR": "", "podCIDRs": null });
    node["status"]["allocatable"]["pods"] = json!("1k");
    let again = json!({ "address": "10.0.0.9", "type": "InternalIP" });
    node["status"]["addresses"]
        .as_array_mut()
        .unwrap()
        .push(again);
    let given = nodes("n", &list(&[node])).unwrap();
    let expected = vec![("address", json!(["10.0.0.1"])), ("maxPods", json!(1000))];
    assert_eq!(given[0].keys, expected);
    assert_eq!(
        nodes("n", "{\"kind\": \"NodeList\", \"items\": []}").unwrap(),
        []
    );
}
