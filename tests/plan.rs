//! `podnet plan` as a person calls it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::Desk;

const THREE: &str = "\
podSubnet: 10.244.0.0/16
nodes:
  - name: node-10
    address: 192.168.10.110
  - name: node-2
    address: 192.168.10.102
  - name: node-1
    address: 192.168.10.101
";

#[test]
fn podcidrs_in_every_form() {
    let desk = Desk::new(THREE);
    assert_eq!(
        desk.says("plan podcidrs -f cluster.yaml"),
        "node-1 10.244.0.0/24\nnode-2 10.244.1.0/24\nnode-10 10.244.2.0/24\n"
    );
    let answer = desk.run("plan podcidrs -f cluster.yaml --output json");
    let two =
        json!({ "name": "node-2", "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"] });
    assert_eq!(answer.ok()["nodes"][1], two);

    let both =
        "plan podcidrs --pod-cidr 10.244.0.0/16 --pod-cidr fd00:10:244::/56 --node a --node b";
    assert_eq!(
        desk.says(both),
        "a 10.244.0.0/24,fd00:10:244::/64\nb 10.244.1.0/24,fd00:10:244:1::/64\n"
    );
    let patch = desk.run(&format!("{both} --format patch"));
    let line = "kubectl patch node b --type=merge -p '{\"spec\":{\"podCIDR\":\"10.244.1.0/24\",\
                \"podCIDRs\":[\"10.244.1.0/24\",\"fd00:10:244:1::/64\"]}}'";
    assert_eq!(patch.stdout.lines().nth(1), Some(line));
    assert!(patch.stderr.contains("cannot be changed"), "{patch:?}");
    let manifests = desk.says(&format!("{both} --format yaml"));
    let first = "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\nspec:\n  podCIDR: 10.244.0.0/24\n  \
                 podCIDRs:\n  - 10.244.0.0/24\n  - \"fd00:10:244::/64\"\n---\n";
    assert!(manifests.starts_with(first), "{manifests}");
}

#[test]
fn options_go_over_the_file_and_the_file_over_the_list() {
    let desk = Desk::new(THREE);
    let node = |name: &str, range: &str| {
        json!({
            "metadata": { "name": name },
            "spec": { "podCIDR": range },
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.10.1" }] },
        })
    };
    let list = json!({ "items": [node("node-3", "10.244.0.0/24")] }).to_string();
    let answer = desk.run_with(
        "plan podcidrs -f cluster.yaml --nodes - --node node-4=192.168.10.104 --node-prefix 25",
        &list,
    );
    assert_eq!(
        answer.stdout,
        "node-1 10.244.1.0/25\nnode-2 10.244.1.128/25\nnode-3 10.244.0.0/24\n\
         node-4 10.244.2.0/25\nnode-10 10.244.2.128/25\n"
    );
    let answer = desk.run_with("plan podcidrs -f - --pod-cidr 10.9.0.0/16", THREE);
    assert!(
        answer.stdout.starts_with("node-1 10.9.0.0/24\n"),
        "{answer:?}"
    );
}

#[test]
fn capacity_in_short_and_whole() {
    let desk = Desk::new(THREE);
    let short = "subnets=256\naddresses_per_subnet=256\nusable_per_subnet=254\nnode_pod_limit=110\n\
                 binding_limit=node\n";
    assert_eq!(desk.says("plan capacity -f cluster.yaml"), short);
    let whole = desk.says("plan capacity -f cluster.yaml --pod-limit 300 --all");
    assert!(
        whole.contains("binding_limit=subnet\nallocatable_per_subnet=253\n"),
        "{whole}"
    );
    assert!(whole.contains("\npods=759\n"), "{whole}");
    let big = desk.says("plan capacity --pod-cidr fd00::/8 --node-prefix 12");
    assert!(
        big.contains("\naddresses_per_subnet=83076749736557242056487941267521536\n"),
        "{big}"
    );
    let json = desk.run("plan capacity -f cluster.yaml --output json");
    assert_eq!(json.ok()["usable_per_subnet"], 254);
    desk.refuses("plan capacity", "podSubnet: missing");
}

#[test]
fn overlap_of_cases_and_of_the_cluster() {
    let desk = Desk::new(THREE);
    let cases = "plan overlap --case p1=10.244.0.0/16,10.96.0.0/16,192.168.10.0/24 \
                 --case p2=10.96.0.0/12,10.96.0.0/16,192.168.10.0/24";
    let answer = desk.run(cases);
    assert_eq!(answer.status, 1);
    assert_eq!(answer.stdout, "p1=ok\np2=overlap\nrule=pod,service,node\n");
    assert_eq!(
        answer.stderr,
        "podnet: p2: the pod range 10.96.0.0/12 and the service range 10.96.0.0/16 overlap in \
         10.96.0.0/16\n"
    );
    let json = desk.run(&format!("{cases} --output json"));
    assert_eq!(json.json["cases"][0]["verdict"], "ok");
    assert_eq!(json.json["rule"], "pod,service,node");

    let line =
        "plan overlap -f cluster.yaml --service-cidr 10.96.0.0/24 --node-cidr 192.168.10.0/24";
    assert_eq!(desk.says(line), "cluster=ok\nrule=pod,service,node\n");
    let short = desk.run(&format!("{line} --services 300"));
    assert_eq!(
        (short.status, short.stdout.lines().next()),
        (1, Some("cluster=short"))
    );
    let outside = desk.run("plan overlap -f cluster.yaml --node-cidr 192.168.9.0/24");
    assert_eq!(outside.stderr.lines().count(), 3, "{outside:?}");
    desk.refuses("plan overlap", "no ranges");
    let host_bits = desk.run("plan overlap --case p=10.0.0.1/8,11.0.0.0/8,12.0.0.0/8");
    assert_eq!(host_bits.status, 2);
    assert!(
        host_bits.stderr.contains("10.0.0.0/8 was probably meant"),
        "{host_bits:?}"
    );
}

#[test]
fn a_nodes_conflist() {
    let desk = Desk::new(THREE);
    let text = desk.says("plan conflist -f cluster.yaml --for node-2");
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["plugins"][0]["ipam"]["subnet"], "10.244.1.0/24");
    assert_eq!(list["plugins"][2]["type"], "bandwidth");
    let lite = desk.run("plan conflist -f cluster.yaml --for node-2 --types lite --output json");
    assert_eq!(lite.ok()["plugins"][0]["ipam"]["type"], "host-local-lite");
    desk.refuses(
        "plan conflist -f cluster.yaml --for node-3",
        "--for: \"node-3\" is no node's: there are \"node-1, node-2, node-10\"",
    );
    // This machine's own host name and addresses are none of theirs.
    let nobody =
        desk.run("plan conflist --pod-cidr 10.0.0.0/8 --node a-node-of-nobody=203.0.113.77");
    assert_eq!(nobody.status, 2, "{nobody:?}");
    assert!(
        nobody.stderr.contains("--for NAME says which one is meant"),
        "{nobody:?}"
    );
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let line = format!("plan conflist --pod-cidr 10.0.0.0/8 --node {}", own.trim());
    if own
        .trim()
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    {
        desk.says(&line);
    }
}

#[test]
fn a_nodes_routes() {
    let desk = Desk::new(THREE);
    assert_eq!(
        desk.says("plan routes -f cluster.yaml --for node-2"),
        "ip route replace 10.244.0.0/24 via 192.168.10.101\n\
         ip route replace 10.244.2.0/24 via 192.168.10.110\n"
    );
    let netplan =
        desk.says("plan routes -f cluster.yaml --for node-2 --format netplan --device eth0");
    assert!(
        netplan.ends_with("      - to: 10.244.2.0/24\n        via: 192.168.10.110\n"),
        "{netplan}"
    );
    desk.refuses(
        "plan routes -f cluster.yaml --for node-2 --format netplan",
        "cluster.yaml",
    );
    let json = desk.run("plan routes -f cluster.yaml --for node-2 --output json");
    assert_eq!(json.ok()[1]["node"], "node-10");
    desk.refuses(
        "plan routes --pod-cidr 10.0.0.0/8 --node a --for a",
        "--node: no IPv4 address of node a, by which the routes to its pods 10.0.0.0/24 must lead",
    );
}

/// The third of the worked examples.
#[test]
fn routes_of_a_cloud() {
    let desk = Desk::new(
        "podSubnet: 10.200.0.0/16
cloudNetwork: kubernetes-the-hard-way
nodes:
- {name: worker-0, address: 10.240.0.20}
- {name: worker-1, address: 10.240.0.21}
- {name: worker-2, address: 10.240.0.22}
",
    );
    let line = |number: u8| {
        format!(
            "gcloud compute routes create kubernetes-route-10-200-{number}-0-24 --network \
             kubernetes-the-hard-way --next-hop-address 10.240.0.2{number} --destination-range \
             10.200.{number}.0/24\n"
        )
    };
    let expected: String = (0..3).map(line).collect();
    assert_eq!(
        desk.says("plan routes -f cluster.yaml --format gcloud"),
        expected
    );
}

#[test]
fn a_node_more_changes_nothing_of_the_others() {
    let desk = Desk::new(THREE);
    let write = "plan write -f cluster.yaml --out net";
    assert_eq!(desk.says(write), "out=net\nnodes=3\nfiles=15\n");
    let read = |file: &str| fs::read_to_string(desk.path().join("net").join(file)).unwrap();
    let conflist = "nodes/node-2/10-k8nd-pod-network.conflist";
    let before = (
        read("podcidrs.txt"),
        read(conflist),
        read("nodes/node-2/routes.sh"),
    );
    assert_eq!(
        before.0,
        "node-1 10.244.0.0/24\nnode-2 10.244.1.0/24\nnode-10 10.244.2.0/24\n"
    );
    assert_eq!(before.2.lines().count(), 4);
    assert!(read("report.md").starts_with("cluster_pod_cidr=10.244.0.0/16\nper_node_prefix=24\n"));

    // In the order of the names it comes before all others.
    let more =
        format!("{write} --node node-0=192.168.10.100 --format iproute2,netplan --device eth0");
    assert!(desk.says(&more).contains("nodes=4\n"));
    let after = read("podcidrs.txt");
    assert_eq!(after, format!("node-0 10.244.3.0/24\n{}", before.0));
    assert_eq!(read(conflist), before.1);
    assert!(read("nodes/node-2/routes.sh").contains("10.244.3.0/24 via 192.168.10.100"));
    assert!(read("nodes/node-0/60-pod-routes.yaml").contains("to: 10.244.2.0/24"));

    // What was written stands for the cluster file from then on.
    let again = desk.says("plan podcidrs -f net/cluster.json");
    assert_eq!(again, after);

    // A node that goes leaves its range to the next.
    let gone = desk.run("plan write -f cluster.yaml --out net");
    assert_eq!(gone.status, 0);
    let said =
        "podnet: node node-0 is no more: its range is free, net/nodes/node-0 can be removed\n";
    assert_eq!(gone.stderr, said);
    assert_eq!(read("podcidrs.txt"), before.0);

    fs::write(desk.path().join("net/podcidrs.txt"), "node-1 10.9.0.0/24\n").unwrap();
    desk.refuses(
        write,
        "net/podcidrs.txt:1: 10.9.0.0/24 is outside of podSubnet 10.244.0.0/16",
    );
    fs::write(desk.path().join("file"), "").unwrap();
    let answer = desk.run("plan write -f cluster.yaml --out file");
    assert_eq!(answer.status, 2, "{answer:?}");
    let answer = desk.run("plan write -f cluster.yaml --out other --service-cidr 10.244.9.0/24");
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        answer.stderr.contains("overlap in 10.244.9.0/24"),
        "{answer:?}"
    );
}

#[test]
fn a_node_that_waits_for_its_plugins() {
    let desk = Desk::new(THREE);
    let manifest = desk.says("plan node --name edge --taint example.com/cni-missing");
    assert!(manifest.contains("\nspec:\n  unschedulable: true\n  taints:\n  - key: example.com/cni-missing\n    effect: NoSchedule\n"));
    let read = desk.run_with("taints", &manifest);
    assert_eq!(
        (read.status, read.stdout.as_str()),
        (
            0,
            "node=edge\ncustom_taint=example.com/cni-missing\n\
             controller_taint=node.kubernetes.io/unschedulable\nunschedulable=true\n"
        )
    );
    fs::write(desk.path().join("node.yaml"), &manifest).unwrap();
    let all = desk.run("taints -f node.yaml --all --output json");
    assert_eq!(all.ok()["taints"][1]["is_there"], false);
    desk.refuses(
        "taints -f cluster.yaml",
        "cluster.yaml:1: kind: missing is no kind of this file",
    );
    assert_eq!(
        desk.run("plan node --name a --taint a=b:NoSchedule").status,
        2
    );
    let taken = desk.run("plan node --name a --taint node.kubernetes.io/unschedulable");
    assert_eq!((taken.status, taken.stdout.as_str()), (2, ""), "{taken:?}");
}

/// The paths of the keys of a schema, as `nodes[].name`.
fn keys_of(schema: &Value, all: &Value, prefix: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return keys_of(&all["$defs"][name], all, prefix);
    }
    if schema["type"] == "array" {
        return keys_of(
            &schema["items"],
            all,
            &format!("{}[].", prefix.trim_end_matches('.')),
        );
    }
    let mut keys = Vec::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        keys.push(format!("{prefix}{name}"));
        keys.extend(keys_of(inner, all, &format!("{prefix}{name}.")));
    }
    keys
}

#[test]
fn every_key_of_the_cluster_file_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let schema = fs::read(root.join("conf/schema/cluster.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let page = fs::read_to_string(root.join("docs/podnet.md")).unwrap();
    let (_, table) = page.split_once("| key |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .map(|row| row.split('|').nth(1).unwrap());
    let mut explained: Vec<&str> = rows
        .flat_map(|keys| keys.split('`').skip(1).step_by(2))
        .collect();
    let mut keys = keys_of(&schema, &schema, "");
    keys.sort();
    explained.sort_unstable();
    assert_eq!(keys, explained);
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let desk = Desk::new("podSubnet: 10.244.0.0/16\npodSubnets: 3\n");
    desk.refuses(
        "plan podcidrs -f cluster.yaml",
        "cluster.yaml:2: podSubnets: unknown field `podSubnets`, expected one of `podSubnet`",
    );
    desk.refuses("plan podcidrs -f none.yaml", "cannot read none.yaml: ");
    desk.refuses("plan podcidrs", "podSubnet: missing");
    desk.refuses(
        "plan podcidrs --pod-cidr 10.244.0.7/16",
        "--pod-cidr: \"10.244.0.7/16\" has bits set beyond its prefix: 10.244.0.0/16 was probably",
    );
    desk.refuses(
        "plan podcidrs --node =1.2.3.4",
        "--node: \"=1.2.3.4\" is no node: expected NAME or NAME=ADDRESS",
    );
    desk.refuses(
        "plan podcidrs --pod-cidr 10.0.0.0/8 --node a=1.2.3.4 --node b --node a=1.2.3.5",
        "--node: \"a\" is the name of two nodes",
    );
    desk.refuses(
        "plan podcidrs --pod-cidr 10.0.0.0/8 --node a=1.2.3.4,1.2.3.5",
        "--node: 1.2.3.4 and 1.2.3.5 are both IPv4",
    );
    desk.refuses(
        "plan podcidrs --pod-cidr 10.0.0.0/8 --node a=127.0.0.1",
        "--node: 127.0.0.1 is loopback: no route can lead",
    );
    desk.refuses(
        "plan podcidrs --pod-cidr 10.0.0.0/30",
        "--pod-cidr: 10.0.0.0/30 is too small for a node's range of /24, the default: expected \
         nodePrefix (--node-prefix) of 30 to 30",
    );
    let nobody = desk.run("plan podcidrs --pod-cidr 10.0.0.0/8");
    assert_eq!((nobody.status, nobody.stdout.as_str()), (0, ""));
    assert!(
        nobody.stderr.starts_with("podnet: there is no node: "),
        "{nobody:?}"
    );
    let full = "plan podcidrs --pod-cidr 10.244.0.0/23 --node a --node b --node c";
    desk.refuses(
        full,
        "--pod-cidr: 10.244.0.0/23 is full: in ranges of /24 it fits 2 nodes",
    );
}
