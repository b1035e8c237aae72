//! `podnet agent` beside Kubernetes itself, with nodes that are bad beside those that are good.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs::File;
use std::process::{Child, Command, Stdio};

use tests::{
    Agent, Node, Plane, Segment, agent_routes, kubernetes_node, registered, soon, soon_or_later,
};

/// Nodes that the API server takes: name, ranges, InternalIP, and what is wrong.
const BAD: [(&str, &[&str], &str, &[&str]); 12] = [
    ("v-none", &[], "192.168.199.220", &["NoPodRange"]),
    (
        "v-ipv6",
        &["fd00:200:0:9::/64"],
        "192.168.199.221",
        &["NoAddress"],
    ),
    (
        "v-bits",
        &["10.200.90.7/24"],
        "192.168.199.222",
        &["BadPodRange"],
    ),
    ("v-all", &["0.0.0.0/0"], "192.168.199.223", &["BadPodRange"]),
    (
        "v-loopback",
        &["127.0.0.0/16"],
        "192.168.199.224",
        &["BadPodRange"],
    ),
    (
        "v-nodes",
        &["192.168.199.192/26"],
        "192.168.199.225",
        &["PodRangeHoldsNodes"],
    ),
    (
        "v-far",
        &["10.200.91.0/24"],
        "203.0.113.7",
        &["NextHopOffLink"],
    ),
    (
        "v-far-too",
        &["10.200.92.0/24"],
        "203.0.113.8",
        &["NextHopOffLink"],
    ),
    (
        "v-words",
        &["10.200.93.0/24"],
        "not-an-address",
        &["BadAddress", "NoAddress"],
    ),
    (
        "v-group",
        &["10.200.94.0/24"],
        "239.1.1.1",
        &["BadAddress", "NoAddress"],
    ),
    (
        "v-ours",
        &["10.200.95.0/24"],
        "192.168.199.210",
        &["AddressIsOurs", "AddressShared"],
    ),
    (
        "v-wide",
        &["10.200.0.0/16"],
        "192.168.199.226",
        &["PodRangeOverlaps"],
    ),
];

/// What the kernel tells of a node's routes from here on, in a file.
struct Told {
    child: Child,
    file: std::path::PathBuf,
}

impl Told {
    fn of(node: &Node) -> Told {
        let file = node.folder().join("told");
        let mut monitor = Command::new("ip");
        monitor
            .args(["monitor", "route"])
            .stdin(Stdio::null())
            .stdout(File::create(&file).unwrap());
        let child = node.namespace.spawn(&mut monitor).unwrap();
        Told { child, file }
    }

    fn has_lost(&self, range: &str) -> bool {
        let text = std::fs::read_to_string(&self.file).unwrap();
        text.contains(&format!("Deleted {range} "))
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives a node its range, as the controller does.
fn give(plane: &Plane, name: &str, range: &str) {
    let patch = format!("{{\"spec\": {{\"podCIDR\": \"{range}\", \"podCIDRs\": [\"{range}\"]}}}}");
    let patched = plane.kubectl(&["patch", "node", name, "-p", &patch], "");
    assert!(patched.is_some(), "{name}: {patch}");
}

#[test]
fn bad_nodes_stand_beside_good_ones() {
    let Some(segment) = Segment::new("agent-cluster-bad") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(mut plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    (0..2).for_each(|number| plane.create(&registered(number)));
    let good = ["k8sworker0", "k8sworker1"];
    soon_or_later(|| good.iter().all(|name| plane.range_of(name).is_some()));
    // From here on nobody gives ranges.
    plane.stop("kube-controller-manager");
    let (own, other) = (
        plane.range_of(good[0]).unwrap(),
        plane.range_of(good[1]).unwrap(),
    );
    let kubeconfig = plane.path("agent.conf");
    let words = ["--resync", "5"];
    let mut agent = Agent::start_as(&segment.nodes[0], good[0], &kubeconfig, &words);
    let beside = Agent::start_as(&segment.nodes[1], good[1], &kubeconfig, &words);
    let to_other = format!("{other} 192.168.199.211");
    agent.routes(&[&to_other]);
    beside.routes(&[&format!("{own} 192.168.199.210")]);
    let told = Told::of(&segment.nodes[0]);

    for (name, ranges, address, _) in BAD {
        plane.create(&kubernetes_node(name, ranges, &[address]));
    }
    for (name, _, _, reasons) in BAD {
        for reason in reasons {
            agent.says(&format!("node=\"{name}\" reason=\"{reason}\""));
            let event = format!("{name} {reason}");
            soon(
                || plane.events().contains(&event),
                || format!("{event}: {:#?}", plane.events()),
            );
        }
    }
    agent.routes(&[&to_other]);
    assert!(!told.has_lost(&other));
    // They are no reason to keep pods off the good ones.
    for name in good {
        let is_so = || plane.condition(name) == Some("False".into());
        soon(is_so, || format!("{:?}", plane.network_unavailable(name)));
    }
    assert!(agent.runs());
    expect_mended(&plane, &agent, &to_other);
    assert!(!told.has_lost(&other));
}

/// Those that become good get their routes; what goes again takes its own along.
fn expect_mended(plane: &Plane, agent: &Agent, to_other: &str) {
    give(plane, "v-none", "10.200.96.0/24");
    plane.readdress("v-far", &["192.168.199.227"]);
    let mended = [
        "10.200.91.0/24 192.168.199.227",
        "10.200.96.0/24 192.168.199.220",
    ];
    agent.routes(&[to_other, mended[0], mended[1]]);
    let line = "node=\"v-far\" reason=\"NextHopOffLink\"";
    let gone = || {
        let log = agent.log();
        log.lines()
            .any(|one| one.contains("no longer so") && one.contains(line))
    };
    soon(gone, || agent.log());
    // It moves, and moves again to where nobody routes to.
    plane.readdress("v-far", &["192.168.199.228"]);
    agent.routes(&[to_other, "10.200.91.0/24 192.168.199.228", mended[1]]);
    plane.readdress("v-far", &["203.0.113.7"]);
    agent.routes(&[to_other, mended[1]]);
    for (name, ..) in BAD {
        plane.delete(name);
    }
    agent.routes(&[to_other]);
    let is_quiet = || {
        agent
            .get("/metrics")
            .1
            .contains("findings{reason=\"NextHopOffLink\"} 0")
    };
    soon(is_quiet, || agent.get("/metrics").1);
}

#[test]
fn a_node_without_a_range_says_so_and_the_others_stand() {
    let Some(segment) = Segment::new("agent-cluster-own") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(mut plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    plane.create(&registered(0));
    soon_or_later(|| plane.range_of("k8sworker0").is_some());
    plane.stop("kube-controller-manager");
    plane.create(&registered(2));
    let kubeconfig = plane.path("agent.conf");
    let start = |number: usize| {
        let name = format!("k8sworker{number}");
        Agent::start_as(&segment.nodes[number], &name, &kubeconfig, &[])
    };
    let (first, third) = (start(0), start(2));
    let to_first = format!("{} 192.168.199.210", plane.range_of("k8sworker0").unwrap());
    third.routes(&[&to_first]);
    let is = |status: &str, reason: &str| {
        let condition = || plane.network_unavailable("k8sworker2").unwrap_or_default();
        let is_so = || condition()["status"] == status && condition()["reason"] == reason;
        soon(is_so, || format!("{}\n{}", condition(), third.log()));
    };
    is("True", "NoPodRange");
    third.says("node=\"k8sworker2\" reason=\"NoPodRange\"");
    let event = "k8sworker2 NoPodRange".to_owned();
    soon(
        || plane.events().contains(&event),
        || format!("{:#?}", plane.events()),
    );
    let conflist = segment.nodes[2].configurations().join("10-podnet.conflist");
    assert!(!conflist.exists());
    assert_eq!(agent_routes(&segment.nodes[0].namespace), [""; 0]);

    give(&plane, "k8sworker2", "10.200.77.0/24");
    is("False", "PodNetworkReady");
    let text = std::fs::read_to_string(&conflist).unwrap();
    assert!(text.contains("10.200.77.0/24"), "{text}");
    first.routes(&["10.200.77.0/24 192.168.199.212"]);
    third.routes(&[&to_first]);
}
