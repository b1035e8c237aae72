use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::Document;

const CLUSTER: &str = "\
podSubnet: 10.244.0.0/16,fd00:10:244::/48
serviceSubnet: 10.96.0.0/16
nodeSubnet: [192.168.10.0/24, 'fd01::/64']
cloudNetwork: vpc
mtu: 1400
device: eth0
features: {bandwidth: false, rootless: true}
nodes:
- {name: a, address: '192.168.10.1,fd01::1', maxPods: 20}
- {name: b, address: '192.168.10.2,fd01::2', device: eth1}
- {name: c, address: '192.168.10.3,fd01::3', podCIDR: 10.244.7.0/24}
keptBack:
- {name: edge, taint: example.com/wait}
";

fn plan(text: &str) -> Plan {
    let document = Document::parse("c", text).unwrap();
    Plan::new(Cluster::new(document.read().unwrap()).unwrap()).unwrap()
}

fn files(plan: &Plan) -> BTreeMap<String, String> {
    let wanted = Wanted {
        types: Types::Lite,
        formats: vec![Format::Iproute2, Format::Netplan],
    };
    let mut files = BTreeMap::new();
    let mut first = None;
    let mut put = |path: &str, pieces: &[&str]| -> Result<(), Infallible> {
        first.get_or_insert_with(|| path.to_owned());
        let before = files.insert(path.to_owned(), pieces.concat());
        assert_eq!(before, None, "{path}");
        Ok(())
    };
    let all = Files::new(plan, &wanted).unwrap();
    let Ok(()) = all.common(&mut put);
    // As by two threads.
    let Ok(()) = all.of_nodes(0..1, &mut put);
    let Ok(()) = all.of_nodes(1..all.nodes(), &mut put);
    assert_eq!(first.as_deref(), Some(RANGES));
    files
}

#[test]
fn every_node_has_its_files() {
    let files = files(&plan(CLUSTER));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "README.md",
        "capacity.txt",
        "cluster.json",
        "gcloud-routes.sh",
        "kept-back/edge.yaml",
        "nodes/a/10-k8nd-pod-network.conflist",
        "nodes/a/60-pod-routes.yaml",
        "nodes/a/routes.sh",
        "nodes/b/10-k8nd-pod-network.conflist",
        "nodes/b/60-pod-routes.yaml",
        "nodes/b/routes.sh",
        "nodes/c/10-k8nd-pod-network.conflist",
        "nodes/c/60-pod-routes.yaml",
        "nodes/c/routes.sh",
        "overlap.txt",
        "patch-nodes.sh",
        "podcidrs.txt",
        "report.html",
        "report.md",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        files["nodes/b/routes.sh"],
        "#!/bin/sh\nset -e\n\
         ip route replace 10.244.0.0/24 via 192.168.10.1 dev eth1\n\
         ip -6 route replace fd00:10:244::/64 via fd01::1 dev eth1\n\
         ip route replace 10.244.7.0/24 via 192.168.10.3 dev eth1\n\
         ip -6 route replace fd00:10:244:2::/64 via fd01::3 dev eth1\n"
    );
    assert!(files["nodes/a/routes.sh"].contains("dev eth0\n"));
    assert!(files["nodes/c/10-k8nd-pod-network.conflist"].contains("\"10.244.7.1\""));
    for said in [
        "nodes/NAME/routes.sh",
        "/etc/netplan",
        "kept-back/NAME.yaml",
    ] {
        assert!(files["README.md"].contains(said), "{said}");
    }
    assert!(!files["README.md"].contains("networkctl"));
    for (name, text) in &files {
        let is_script = text.starts_with("#!/bin/sh\nset -e\n");
        assert_eq!(is_script, name.ends_with(".sh"), "{name}");
    }
}

#[test]
fn the_written_cluster_is_the_same() {
    let first = plan(CLUSTER);
    let text = files(&first)["cluster.json"].clone();
    let again = plan(&text);
    assert_eq!(podcidrs::text(&again), podcidrs::text(&first));
    assert_eq!(keys(&again), keys(&first));
    assert_eq!(files(&again), files(&first));
}

#[test]
fn the_file_of_ranges_is_never_empty() {
    let plan = plan("podSubnet: 10.244.0.0/16");
    let text = files(&plan)[RANGES].clone();
    assert_eq!(text, "# no node has a range yet\n");
    assert_eq!(podcidrs::read("f", &text).unwrap(), []);
}

#[test]
fn the_report() {
    let report = files(&plan(CLUSTER))["report.md"].clone();
    let begin = "cluster_pod_cidr=10.244.0.0/16,fd00:10:244::/48
per_node_prefix=24,64
nodes_addressable=256
notready_node=edge
chained_plugins=portmap

- Pods get their addresses from host-local";
    assert!(report.starts_with(begin), "{report}");
    for said in [
        "This cluster ignores bandwidth annotations",
        "- The kubelet's pod limit (20) binds, since it is at most the 254 usable addresses",
        "- What cannot be changed later:",
        "by example.com/wait, which nobody but a person removes",
    ] {
        assert!(report.contains(said), "{said}: {report}");
    }
    let overlapping = CLUSTER.replace("10.96.0.0/16", "10.244.0.0/24");
    let report = files(&plan(&overlapping))["report.md"].clone();
    assert!(
        report.contains("- To be mended: the pod range 10.244.0.0/16 and the service"),
        "{report}"
    );
    let small =
        "podSubnet: 10.244.0.0/16\nnodePrefix: 28\nfeatures: {portMappings: false, ipMasq: false}";
    let report = files(&plan(small))["report.md"].clone();
    assert!(report.contains("chained_plugins=bandwidth\n"), "{report}");
    assert!(report.contains(
        "- The node's range binds, since it has 14 usable addresses for a pod limit of 110"
    ));
    assert!(
        report.contains("ignores hostPorts (no portmap in the chain);"),
        "{report}"
    );
    assert!(!report.contains("ipMasq"), "{report}");
}

#[test]
fn nothing_is_written_where_something_cannot_be() {
    let plan = plan("podSubnet: 10.244.0.0/16\nnodes: [{name: a, address: 10.0.0.1}]");
    let wanted = Wanted {
        types: Types::Standard,
        formats: vec![Format::Netplan],
    };
    assert_eq!(Files::new(&plan, &wanted).unwrap_err().key, "device");
}

#[test]
fn thousands_of_nodes() {
    let node = |number: usize| {
        json!({
            "name": format!("node-{number}"),
            "address": format!("172.16.{}.{}", number / 250, number % 250 + 1),
        })
    };
    let nodes: Vec<_> = (0..5000).map(node).collect();
    let plan = plan(&json!({ "podSubnet": "10.0.0.0/8", "nodes": nodes }).to_string());
    let wanted = Wanted {
        types: Types::Standard,
        formats: vec![Format::Iproute2],
    };
    let files = Files::new(&plan, &wanted).unwrap();
    let mut seen = 0_usize;
    let Ok(()) = files.of_nodes(0..files.nodes(), |path, pieces| -> Result<(), Infallible> {
        if path.ends_with("routes.sh") {
            let own = format!(" 10.{}.{}.0/24 ", seen >> 8, seen & 255);
            assert_eq!(path, format!("nodes/node-{seen}/routes.sh"));
            // Looking through all of them would be the square of their number.
            if seen.is_multiple_of(500) {
                let text = pieces.concat();
                assert_eq!(text.lines().count(), 5001);
                assert!(!text.contains(&own), "{own}");
            }
            seen += 1;
        }
        Ok(())
    });
    assert_eq!(seen, 5000);
}
