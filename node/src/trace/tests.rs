mod ends;

use cni::Attachment;
use firewall::Family;
use net::route::Kind;
use net::{Address, Link, Qdisc, Tbf};

use super::*;
use crate::case::Case;
use crate::findings::tests::{Fixture, VETH, forwarding};
use crate::fixture::{ip, net, route};
use crate::node::{Netns, Node};

const NAT: &str = "-P POSTROUTING ACCEPT
-N CNI-a
-A POSTROUTING -s 10.1.1.2/32 -j CNI-a
-A CNI-a -d 10.1.1.0/24 -j ACCEPT
-A CNI-a ! -d 224.0.0.0/4 -j MASQUERADE
";

/// The namespace of the fixture's pod.
fn inside() -> Node {
    let link = Link {
        index: 2,
        name: "eth0".to_owned(),
        kind: "veth".to_owned(),
        up: true,
        oper_up: true,
        mtu: 1500,
        peer: Some(4),
        peer_elsewhere: true,
        ..Link::default()
    };
    let address = |text: &str| Address {
        net: net(text),
        tentative: false,
        dad_failed: false,
        global: true,
    };
    let addresses = ["10.1.1.2/24", "fd00:0:0:1::2/64"].map(|text| (2, address(text)));
    Node {
        links: vec![link],
        addresses: addresses.into(),
        routes: vec![
            route("10.1.1.0/24", None, 2),
            route("0.0.0.0/0", Some("10.1.1.1"), 2),
            route("fd00:0:0:1::/64", None, 2),
            route("::/0", Some("fd00:0:0:1::1"), 2),
        ],
        ..Node::default()
    }
}

/// The node with a pod whose interface has a token bucket for each direction, and a host port.
fn fixture() -> Fixture {
    let mut fixture = Fixture::healthy();
    let link = fixture.link(VETH);
    (link.peer, link.peer_elsewhere) = (Some(2), true);
    let mut bucket = |index: u32, rate: u64| {
        let tbf = Tbf {
            rate,
            limit: 1000,
            buffer: 1,
            burst: None,
        };
        let qdisc = Qdisc {
            kind: "tbf".to_owned(),
            handle: 0x10000,
            parent: 0xffff_ffff,
            tbf: Some(tbf),
        };
        fixture.node.qdiscs.push((index, qdisc));
    };
    bucket(4, 1_000_000);
    bucket(5, 2_000_000);
    let rules = std::mem::take(&mut fixture.node.rules);
    fixture.node.rules = rules.with_table(Family::V4, "iptables", "nat", NAT);
    let mut port = forwarding(8080, "10.1.1.2", None);
    port.masquerades = vec![net("10.1.1.0/24")];
    fixture.node.rules.ports.push(port);
    set_up(&mut fixture);
    fixture
}

/// Sets up what the cache knows of the pods' interfaces.
fn set_up(fixture: &mut Fixture) {
    for attached in fixture.node.attachments.iter_mut().flatten() {
        if let crate::Netns::Open { link, .. } = &mut attached.netns {
            *link = inside().links.pop();
        }
    }
}

fn case(fixture: &Fixture) -> Case<'_> {
    Case {
        node: &fixture.node,
        site: fixture.site.as_ref(),
    }
}

/// The lines of a path.
fn lines(fixture: &Fixture, inside: Option<&Node>, text: &str, to: &str) -> Vec<String> {
    let case = case(fixture);
    let to = (!to.is_empty()).then(|| to.parse().unwrap());
    let mut hops = Vec::new();
    for mut subject in find(&case, text).unwrap() {
        if let Subject::Pod(pod) = &mut subject {
            pod.inside = inside.map(|inside| Ok(inside.clone()));
        }
        hops.extend(path(case, &subject, to));
    }
    hops.iter().map(ToString::to_string).collect()
}

fn of_pod(fixture: &Fixture, to: &str) -> Vec<String> {
    lines(fixture, Some(&inside()), "pod", to)
}

/// The faults among lines.
fn faults(lines: &[String]) -> Vec<&str> {
    let faults = lines.iter().filter_map(|line| line.split_once(" fault="));
    faults.map(|(_, why)| why.trim_matches('\'')).collect()
}

/// Kinds and names of hops, in their order.
fn order(lines: &[String]) -> Vec<String> {
    let words = lines.iter().map(|line| line.split(' ').take(3));
    words
        .map(|words| words.collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn both_ways_of_a_pod() {
    let lines = of_pod(&fixture(), "");
    assert_eq!(faults(&lines), [""; 0]);
    let veth = |way: &str| format!("{way} veth {VETH}@if2");
    let port = |way: &str| format!("{way} port {VETH}");
    let expected = [
        "out pod-link eth0@if4",
        "out pod-route default",
        "out pod-route default",
        &veth("out"),
        "out qdisc bwp0000000000ff",
        &port("out"),
        "out bridge cni0",
        "out forwarding ipv4",
        "out route default",
        "out filter forward",
        "out masquerade yes",
        "out uplink eth0",
        "out next-hop 192.0.2.1",
        "out forwarding ipv6",
        "out route default",
        "out filter forward",
        "out masquerade no",
        "out next-hop 2001:db8::1",
        "in host-port tcp/8080",
        "in route 10.1.1.0/24",
        "in filter forward",
        "in route fd00:0:0:1::/64",
        "in filter forward",
        "in bridge cni0",
        &port("in"),
        &format!("in qdisc {VETH}"),
        &veth("in"),
        "in pod-link eth0@if4",
    ];
    assert_eq!(order(&lines), expected);
    for line in [
        "out qdisc bwp0000000000ff kind=tbf rate=16000000bit limit=1000b",
        &format!("in qdisc {VETH} kind=tbf rate=8000000bit limit=1000b"),
        &format!("out port {VETH} bridge=cni0 state=forwarding hairpin=off isolated=off"),
        "out pod-route default via=10.1.1.1 dev=eth0 to=198.51.100.254",
        "out masquerade yes source=10.1.1.2 rule='iptables, table nat: -A CNI-a ! -d 224.0.0.0/4 -j MASQUERADE'",
        "in host-port tcp/8080 to=10.1.1.2:80 backend=iptables masquerades=10.1.1.0/24 rule='dnat to 10.1.1.2'",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
    }
}

#[test]
fn a_pod_that_nobody_has_looked_into() {
    let lines = lines(&fixture(), None, "k8nd/pod/eth0", "");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("in route 10.1.1.0/24")),
        "{lines:#?}"
    );
    let mut fixture = fixture();
    fixture.node.attachments.as_mut().unwrap()[0].netns = crate::Netns::Gone;
    let lines = self::lines(&fixture, None, "pod", "");
    assert_eq!(faults(&lines)[0], "its namespace is no more");
}

#[test]
fn where_a_packet_goes_and_which_rule_decides() {
    let mut fixture = fixture();
    fixture.attach("other", "10.1.1.3");
    set_up(&mut fixture);
    for (to, expected, decides) in [
        (
            "198.51.100.1:443",
            "out next-hop 192.0.2.1 dev=eth0",
            "rule='iptables, table nat: -A CNI-a ! -d 224.0.0.0/4 -j MASQUERADE'",
        ),
        (
            "10.1.2.7",
            "out next-hop 192.0.2.12 dev=eth0 node=c",
            "out route 10.1.2.0/24 via=192.0.2.12",
        ),
        (
            "192.0.2.12",
            "out next-hop 192.0.2.12 dev=eth0 node=c",
            "out route 192.0.2.0/24 dev=eth0",
        ),
        (
            "10.1.1.3:80",
            "in pod k8nd/other/eth0 address=10.1.1.3",
            "out pod-route 10.1.1.0/24 dev=eth0",
        ),
        (
            "192.0.2.11:8080",
            "in pod k8nd/pod/eth0 address=10.1.1.2",
            "rule='marked by the host port, as it comes from 10.1.1.0/24'",
        ),
        (
            "10.1.1.1",
            "out local 10.1.1.1 in='the node'",
            "out pod-route",
        ),
        ("10.1.1.2", "out local 10.1.1.2 in='the pod'", "kind=local"),
        (
            "[2001:db8::99]:80",
            "out next-hop 2001:db8::99 dev=eth0",
            "masquerade no",
        ),
    ] {
        let mut inside = inside();
        let mut own = route("10.1.1.2/32", None, 2);
        (own.kind, own.route.table) = (Kind::Local, Some(255));
        inside.routes.push(own);
        let lines = lines(&fixture, Some(&inside), "pod", to);
        assert_eq!(faults(&lines), [""; 0], "{to}: {lines:#?}");
        assert!(lines.contains(&expected.to_owned()), "{to}: {lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains(decides)),
            "{to}: {lines:#?}"
        );
    }
}

/// What puts the fixture, or its pod, out of order.
type Change = fn(&mut Fixture, &mut Node);

/// Where the packets of the pod go, why they do not, at which hop, and what does that.
const STOPS: [(&str, &str, &str, Change); 13] = [
    ("", "it is down", "out pod-link", |_, inside| {
        inside.links[0].up = false
    }),
    (
        "",
        "no route leads to 198.51.100.254",
        "out pod-route",
        |_, inside| inside.routes.truncate(1),
    ),
    ("", "the port does not forward", "out port", |fixture, _| {
        fixture.link(VETH).port_state = Some(net::PortState::Blocking);
    }),
    ("", "it is no port of a bridge", "in port", |fixture, _| {
        let link = fixture.link(VETH);
        (link.master, link.port_state) = (None, None);
    }),
    ("", "it is down", "out bridge", |fixture, _| {
        fixture.link("cni0").up = false
    }),
    (
        "",
        "net/ipv4/ip_forward is 0",
        "out forwarding",
        |fixture, _| {
            fixture.set("net/ipv4/ip_forward", "0");
        },
    ),
    (
        "",
        "it leads to eth0, and the pod is at cni0",
        "in route",
        |fixture, _| {
            fixture
                .node
                .routes
                .insert(0, route("10.1.1.0/25", Some("192.0.2.11"), 2));
        },
    ),
    (
        "",
        "a rule before it leads to 10.1.1.9",
        "in host-port",
        |fixture, _| {
            fixture
                .node
                .rules
                .ports
                .insert(0, forwarding(8080, "10.1.1.9", None));
        },
    ),
    ("", "it is not on the link", "out next-hop", |fixture, _| {
        let index = fixture.position("0.0.0.0/0");
        fixture.node.routes[index].route.gateway = Some(ip("203.0.113.1"));
    }),
    (
        "203.0.113.5",
        "the route is of kind blackhole",
        "out route",
        |fixture, _| {
            let mut hole = route("203.0.113.0/24", None, 0);
            hole.kind = Kind::Blackhole;
            fixture.node.routes.push(hole);
        },
    ),
    (
        "10.1.1.77",
        "no pod of this node has the address",
        "in pod",
        |_, _| {},
    ),
    (
        "192.0.2.11:81",
        "no host port and no process of the node takes it",
        "out local",
        |_, _| {},
    ),
    (
        "198.51.100.1",
        "dropped by iptables, table filter: -A FORWARD -o eth0 -j DROP",
        "out filter",
        |fixture, _| {
            let rules = std::mem::take(&mut fixture.node.rules);
            let text = "-P FORWARD ACCEPT\n-A FORWARD -o eth0 -j DROP\n";
            fixture.node.rules = rules.with_table(Family::V4, "iptables", "filter", text);
        },
    ),
];

#[test]
fn what_stops_a_packet_is_named() {
    for (to, why, at, change) in STOPS {
        let (mut fixture, mut inside) = (fixture(), inside());
        change(&mut fixture, &mut inside);
        let lines = lines(&fixture, Some(&inside), "pod", to);
        let told = lines
            .iter()
            .any(|line| line.starts_with(at) && faults(std::slice::from_ref(line)) == [why]);
        assert!(told, "{at} {why}: {lines:#?}");
    }
}

#[test]
fn another_node_s_pod() {
    let fixture = fixture();
    let lines = lines(&fixture, None, "10.1.2.7", "");
    assert_eq!(
        lines,
        [
            "out node c address=10.1.2.7",
            "out route 10.1.2.0/24 via=192.0.2.12 dev=eth0 to=10.1.2.7",
            "out uplink eth0 state=up mtu=1500",
            "out next-hop 192.0.2.12 dev=eth0 node=c"
        ]
    );
    let back = self::lines(&fixture, None, "10.1.2.7", "192.0.2.11:8080");
    assert!(
        back.iter()
            .any(|line| line.starts_with("in pod k8nd/pod/eth0")),
        "{back:#?}"
    );
    assert!(
        find(&case(&fixture.without_plan()), "10.1.2.7")
            .unwrap_err()
            .contains("(-f)")
    );
}

#[test]
fn links_and_what_comes_in_by_them() {
    let fixture = fixture();
    // The pod's own links mean the pod.
    for link in [VETH, "bwp0000000000ff"] {
        assert_eq!(
            lines(&fixture, None, link, ""),
            lines(&fixture, None, "pod", "")
        );
    }
    let bridge = order(&lines(&fixture, None, "cni0", ""));
    assert_eq!(bridge[0], "out link cni0");
    assert!(
        bridge.contains(&format!("in port {VETH}@if2")),
        "{bridge:?}"
    );
    let from_outside = lines(&fixture, None, "eth0", "192.0.2.11:8080");
    assert_eq!(faults(&from_outside), [""; 0]);
    assert!(
        from_outside
            .iter()
            .any(|line| line.starts_with("out masquerade no")),
        "{from_outside:#?}"
    );
}

#[test]
fn what_a_name_means() {
    let mut fixture = fixture();
    fixture.attach("podium", "10.1.1.3");
    // As a runtime caches it beside the first.
    let attachments = fixture.node.attachments.as_mut().unwrap();
    let mut loopback = attachments[0].clone();
    loopback.known.attachment = Attachment::new("cni-loopback", "pod", "lo");
    loopback.netns = Netns::Unknown;
    attachments.insert(0, loopback);
    let names = |text: &str| -> Result<Vec<String>, String> {
        let found = find(&case(&fixture), text)?.into_iter();
        Ok(found
            .map(|subject| match subject {
                Subject::Pod(pod) => pod.attachment.unwrap().to_string(),
                Subject::Link(index) => fixture.node.name_of(index),
                Subject::Elsewhere { node, .. } => node,
            })
            .collect())
    };
    for (text, expected) in [
        ("pod", "k8nd/pod/eth0"),
        ("podi", "k8nd/podium/eth0"),
        ("k8nd/podium/eth0", "k8nd/podium/eth0"),
        ("/run/netns/podium", "k8nd/podium/eth0"),
        ("10.1.1.3", "k8nd/podium/eth0"),
        ("fd00:0:0:1::2", "k8nd/pod/eth0"),
        ("192.0.2.11", "eth0"),
        ("eth0", "eth0"),
        ("10.1.0.9", "a"),
        ("192.0.2.12", "c"),
    ] {
        assert_eq!(names(text), Ok(vec![expected.to_owned()]), "{text}");
    }
    for (text, reason) in [
        ("po", "several containers' ids: pod, podium"),
        ("nothing", "no pod, namespace, address or link"),
        ("", "means nothing"),
        ("203.0.113.9", "nor another's of the plan"),
    ] {
        let error = names(text).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn a_namespace_that_no_cache_knows() {
    let fixture = fixture();
    let pods = fixture.node.pods_in("/proc/7/ns/net".as_ref(), &inside());
    let named: Vec<_> = pods
        .iter()
        .map(|pod| (pod.ifname.as_str(), pod.veth))
        .collect();
    assert_eq!(named, [("eth0", Some(4))]);
    assert_eq!(
        pods[0].attachment.as_ref().unwrap().to_string(),
        "k8nd/pod/eth0"
    );
}

#[test]
fn every_hop_is_explained() {
    let fixture = fixture();
    let mut paths = vec![
        lines(&fixture, None, "cni0", ""),
        lines(&fixture, None, "10.1.2.7", ""),
    ];
    for to in ["", "192.0.2.11:8080", "10.1.1.1", "10.1.1.9", "224.0.0.1"] {
        paths.push(of_pod(&fixture, to));
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/podnet.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| hop |").unwrap();
    let rows = table.lines().take_while(|line| !line.is_empty());
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let explained: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    for line in paths.iter().flatten() {
        let kind = line.split(' ').nth(1).unwrap();
        assert!(explained.contains(&kind), "{line}");
    }
}
