use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Document;

/// A plan, from the pod ranges and nodes with the ranges that they have.
fn plan(pods: &str, prefix: &[u8], nodes: &[(String, Vec<IpNet>)]) -> Result<Plan, String> {
    let node = |(name, fixed): &(String, Vec<IpNet>)| json!({ "name": name, "podCIDR": fixed });
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    let mut keys = json!({ "podSubnet": pods, "nodes": nodes });
    if !prefix.is_empty() {
        keys["nodePrefix"] = json!(prefix);
    }
    let document = Document::parse("c", &keys.to_string()).unwrap();
    let located = |fault| document.locate(fault).to_string();
    let cluster = Cluster::new(document.read().unwrap()).map_err(located)?;
    Plan::new(cluster).map_err(located)
}

fn fixed(name: &str, ranges: &[&str]) -> (String, Vec<IpNet>) {
    let ranges = ranges.iter().map(|range| range.parse().unwrap());
    (name.to_owned(), ranges.collect())
}

fn lines(plan: &Plan) -> Vec<String> {
    let text = crate::podcidrs::text(plan);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn from_the_front_in_the_order_of_names() {
    let nodes = ["node-10", "node-2", "node-1"].map(|name| fixed(name, &[]));
    let plan = plan("10.244.0.0/16,fd00:10:244::/56", &[], &nodes).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "node-1 10.244.0.0/24,fd00:10:244::/64",
            "node-2 10.244.1.0/24,fd00:10:244:1::/64",
            "node-10 10.244.2.0/24,fd00:10:244:2::/64",
        ]
    );
}

#[test]
fn what_nodes_have_is_kept_and_not_given_again() {
    let nodes = [
        fixed("a", &[]),
        fixed("b", &["10.244.1.0/24"]),
        // Of other sizes, as from a time with another prefix.
        fixed("c", &["10.244.2.128/25"]),
        fixed("d", &["10.244.4.0/23"]),
        fixed("e", &["10.244.2.0/26"]),
        fixed("f", &[]),
        fixed("g", &[]),
    ];
    let plan = plan("10.244.0.0/16", &[], &nodes).unwrap();
    let given: Vec<_> = ["a", "f", "g"]
        .map(|name| plan.node(name).unwrap().1[0].to_string())
        .into();
    assert_eq!(given, ["10.244.0.0/24", "10.244.3.0/24", "10.244.6.0/24"]);
    assert_eq!(plan.node("d").unwrap().1[0].to_string(), "10.244.4.0/23");
}

#[test]
fn refusals() {
    let nodes: Vec<_> = (0..5).map(|n| fixed(&format!("n{n}"), &[])).collect();
    let full = plan("10.244.0.0/22", &[24], &nodes).unwrap_err();
    let said = "c:1: podSubnet: 10.244.0.0/22 is full: in ranges of /24 it fits 4 nodes, and there \
                are 5";
    assert_eq!(full, said);
    let mut odd = nodes;
    odd[0].1.push("10.244.0.0/23".parse().unwrap());
    let full = plan("10.244.0.0/22", &[24], &odd).unwrap_err();
    assert!(full.contains("it fits 3 nodes, and there are 5"), "{full}");
    let twice = [
        fixed("a", &["10.244.1.0/24"]),
        fixed("b", &["10.244.0.0/23"]),
    ];
    assert_eq!(
        plan("10.244.0.0/16", &[], &twice).unwrap_err(),
        "c:1: nodes[0].podCIDR: 10.244.1.0/24 overlaps 10.244.0.0/23 of node b"
    );
    let none = Plan::new(Cluster::new(crate::keys::ClusterKeys::default()).unwrap());
    assert_eq!(none.unwrap_err().key, "podSubnet");
}

#[test]
fn what_was_said_is_read_again() {
    let nodes = [fixed("a", &[]), fixed("b", &[])];
    let first = plan("10.244.0.0/16,fd00::/48", &[], &nodes).unwrap();
    let read = crate::podcidrs::read("old", &crate::podcidrs::text(&first)).unwrap();
    assert_eq!(read[1].name, "b");
    assert_eq!(
        read[1].keys,
        [("podCIDR", json!("10.244.1.0/24,fd00:0:0:1::/64"))]
    );
    assert_eq!(read[1].from, "old:2");
    let error = crate::podcidrs::read("old", "a 10.0.0.0/24\n\nb\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "old:3: \"b\" is no node's name and range"
    );
}

/// A pod range with a prefix that has room for 8 to 4096 nodes.
fn pods() -> impl Strategy<Value = (IpNet, u8)> {
    let v4 = (any::<u32>(), 9_u8..=18, 3_u8..=12).prop_map(|(address, length, more)| {
        let range = ipnet::Ipv4Net::new(address.into(), length).unwrap().trunc();
        (IpNet::V4(range), length + more)
    });
    let v6 = (any::<u128>(), 8_u8..=110, 3_u8..=12).prop_map(|(address, length, more)| {
        let range = ipnet::Ipv6Net::new(address.into(), length).unwrap().trunc();
        (IpNet::V6(range), length + more)
    });
    prop_oneof![v4, v6]
}

/// Whether every range is a part of the whole that shares nothing with another's, counted by
/// addresses.
fn check(plan: &Plan, pods: IpNet) {
    let bounds = |range: &IpNet| match range {
        IpNet::V4(range) => (
            u128::from(u32::from(range.network())),
            u128::from(u32::from(range.broadcast())),
        ),
        IpNet::V6(range) => (range.network().into(), range.broadcast().into()),
    };
    let (first, last) = bounds(&pods);
    let mut all: Vec<_> = plan.nodes().map(|(_, ranges)| bounds(&ranges[0])).collect();
    all.sort_unstable();
    for (from, to) in &all {
        assert!(first <= *from && *to <= last, "{from} {to}");
    }
    for pair in all.windows(2) {
        assert!(pair[0].1 < pair[1].0, "{pair:?}");
    }
}

proptest! {
    #[test]
    fn ranges_are_disjoint_parts_and_survive(
        (range, prefix) in pods(),
        steps in prop::collection::vec(prop::collection::btree_set(0_u16..200, 0..8), 1..12),
    ) {
        // Each step is a set of nodes that come, or go where they are there.
        let mut nodes: BTreeMap<u16, Vec<IpNet>> = BTreeMap::new();
        for step in steps {
            for number in step {
                if nodes.remove(&number).is_none() {
                    nodes.insert(number, Vec::new());
                }
            }
            let given: Vec<_> =
                nodes.iter().map(|(number, fixed)| (format!("n{number}"), fixed.clone())).collect();
            let planned = plan(&range.to_string(), &[prefix], &given);
            if nodes.len() as u128 > range::subnets(range, prefix) {
                prop_assert!(planned.unwrap_err().contains("is full"));
                break;
            }
            let planned = planned.unwrap();
            check(&planned, range);
            for (number, kept) in &mut nodes {
                let (_, now) = planned.node(&format!("n{number}")).unwrap();
                prop_assert!(kept.is_empty() || kept.as_slice() == now);
                prop_assert_eq!(now[0].prefix_len(), prefix);
                *kept = now.to_vec();
            }
        }
    }
}

#[test]
fn an_address_in_the_own_range_is_refused() {
    let document = |range: &str| {
        let text = format!(
            "podSubnet: 10.244.0.0/16\nnodes:\n- name: a\n  podCIDR: {range}\n  address: 10.244.3.7\n"
        );
        Document::parse("c", &text).unwrap()
    };
    let plan = |document: &Document| {
        let cluster = Cluster::new(document.read().unwrap()).unwrap();
        Plan::new(cluster).map_err(|fault| document.locate(fault).to_string())
    };
    assert_eq!(
        plan(&document("10.244.3.0/24")).unwrap_err(),
        "c:5: nodes[0].address: 10.244.3.7 of node a is in its own pod range 10.244.3.0/24: no route can \
         lead to it"
    );
    // In the pods' is a finding, since ranges overlap then.
    plan(&document("10.244.4.0/24")).unwrap();
}
