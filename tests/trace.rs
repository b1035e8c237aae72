//! `podnet trace` on a node with pods: both ways, to destinations, and where the path is broken.

use lab::Namespace;
use serde_json::Value;
use tests::{Answer, NETWORK, Patient, at, eventually, expect_none, told};

/// `podnet trace` on the first node, with its cluster file.
fn trace(patient: &Patient, words: &str) -> Answer {
    let cache = patient.segment.nodes[0].cache.display().to_string();
    let words = format!("trace {words} --cache-dir {cache}");
    patient.segment.podnet(0, &words)
}

/// The lines that begin so.
fn lines<'a>(answer: &'a Answer, begin: &str) -> Vec<&'a str> {
    let lines = answer.stdout.lines();
    lines.filter(|line| line.starts_with(begin)).collect()
}

/// That a path is without fault, and that each of these is the beginning of a line and in it.
fn is_said(answer: &Answer, expected: &[(&str, &str)]) -> Result<(), String> {
    let missing = expected.iter().find(|(begin, part)| {
        let lines = lines(answer, begin);
        !lines.iter().any(|line| line.contains(part))
    });
    match (answer.status, missing) {
        (0, None) if told(answer, "faults=") == ["0"] => Ok(()),
        _ => Err(format!("{missing:?}: {}{}", answer.stdout, answer.stderr)),
    }
}

/// As `ip -o link` names a link, with the index of its other end.
fn as_seen(inside: &Namespace, link: &str) -> String {
    let shown = inside.read("ip", &["-o", "link", "show", "dev", link]);
    let shown = shown.unwrap_or_default();
    shown.split(": ").nth(1).unwrap_or_default().to_owned()
}

/// What the rules of a backend are called by.
fn rule_of(backend: &str) -> &str {
    match backend {
        "iptables" => ", table nat: -A CNI-",
        _ => "'nftables, table ",
    }
}

/// How lines of a pod's path begin, and what is further on in them.
const BOTH_WAYS: &str = "\
pod=$NETWORK/ ... /eth0
out pod-link $INNER state=up ... 10.200.0.2/24,fd00:200::2/64
out pod-route default via=10.200.0.1 dev=eth0 ...
out pod-route default via=fd00:200::1 dev=eth0 ...
out veth $OUTER state=up ... alias=$NETWORK/
out qdisc bwp ... kind=tbf rate=8000000bit
out port $VETH bridge=cni0 ... state=forwarding
out bridge cni0 state=up ... 10.200.0.1/24
out route 10.200.1.0/24 via=192.168.199.211 dev=eth0 ...
out route fd00:200:0:1::/64 via=fd99::211 dev=eth0 ...
out masquerade yes source=10.200.0.2 ... $RULE
out masquerade yes source=fd00:200::2 ... $RULE
out uplink eth0 ... state=up
out next-hop 192.168.199.211 ... node=k8sworker1
out next-hop fd99::211 ... node=k8sworker1
in host-port tcp/8080 to=10.200.0.2:80 ... backend=$BACKEND masquerades=10.200.0.0/24,127.0.0.1/32
in host-port tcp/8080 to='[fd00:200::2]:80' ... backend=$BACKEND masquerades=fd00:200::/64
in route 10.200.0.0/24 dev=cni0 ...
in qdisc $VETH ... kind=tbf rate=8000000bit
in pod-link $INNER ...
";

#[test]
fn both_ways_of_a_pod_by_each_backend() {
    for backend in ["iptables", "nftables"] {
        let Some(patient) = Patient::with("trace", backend) else {
            return;
        };
        let veth = patient.expand("$VETH");
        let node = &patient.segment.nodes[0].namespace;
        let expected = BOTH_WAYS
            .replace("$NETWORK", NETWORK)
            .replace("$INNER", &as_seen(&patient.pods[0].namespace, "eth0"))
            .replace("$OUTER", &as_seen(node, &veth))
            .replace("$VETH", &veth)
            .replace("$RULE", rule_of(backend))
            .replace("$BACKEND", backend);
        let expected: Vec<_> = expected
            .lines()
            .filter_map(|line| line.split_once(" ..."))
            .map(|(begin, part)| (begin, part.trim_start()))
            .collect();
        assert!(expected.len() > 15);
        let id = &patient.pods[0].id;
        let netns = patient.expand("$POD");
        let ifb = told(&trace(&patient, &veth), "out qdisc ").remove(0);
        let ifb = ifb.split(' ').next().unwrap();
        let first = trace(&patient, id);
        let attachment = format!("{NETWORK}/{id}/eth0");
        let names = [
            id,
            &attachment,
            &netns,
            "10.200.0.2",
            "fd00:200::2",
            &veth,
            ifb,
        ];
        let failed = names.into_iter().filter_map(|name| {
            let answer = trace(&patient, name);
            let said = is_said(&answer, &expected);
            let same = (answer.stdout == first.stdout).then_some(());
            let same = same.ok_or_else(|| format!("not as by its id: {}", answer.stdout));
            let failed = said.and(same).err();
            failed.map(|error| format!("{backend}: {name}: {error}"))
        });
        expect_none(failed.collect());
    }
}

/// Where the first pod's packets go, and how two lines begin of what is said, with what is in them.
type Way<'a> = (&'a str, [(&'a str, &'a str); 2]);

const WAYS: [Way; 6] = [
    (
        "192.168.199.210:8081",
        [
            ("in pod", "/two/eth0"),
            ("out masquerade yes", "as it comes from 10.200.0.0/24"),
        ],
    ),
    (
        "[fd99::210]:8081",
        [
            ("in pod", "/two/eth0"),
            ("out masquerade yes", "as it comes from fd00:200::/64"),
        ],
    ),
    (
        "10.200.0.3:80",
        [
            ("in pod", "/two/eth0"),
            ("out pod-route 10.200.0.0/24 dev=eth0", ""),
        ],
    ),
    (
        "[fd00:200::3]:80",
        [
            ("in pod", "/two/eth0"),
            ("out pod-route fd00:200::/64 dev=eth0", ""),
        ],
    ),
    (
        "192.168.199.211:443",
        [
            ("out next-hop 192.168.199.211", "node=k8sworker1"),
            ("out masquerade yes", "$RULE"),
        ],
    ),
    (
        "[fd99::211]:443",
        [
            ("out next-hop fd99::211", "node=k8sworker1"),
            ("out masquerade yes", "$RULE"),
        ],
    ),
];

#[test]
fn where_a_packet_would_go_is_where_it_goes() {
    for backend in ["iptables", "nftables"] {
        let Some(patient) = Patient::with("trace-to", backend) else {
            return;
        };
        let (pods, nodes) = (&patient.pods, &patient.segment.nodes);
        let serve = |on: &Namespace, address: &str| on.serve_tcp(at(address)).unwrap();
        let _servers = [
            serve(&pods[1].namespace, "10.200.0.3:80"),
            serve(&pods[1].namespace, "[fd00:200::3]:80"),
            serve(&nodes[1].namespace, "192.168.199.211:443"),
            serve(&nodes[1].namespace, "[fd99::211]:443"),
        ];
        let mut failed = Vec::new();
        for (to, said) in WAYS {
            let answer = trace(&patient, &format!("10.200.0.2 --to {to}"));
            let said = said.map(|(begin, part)| (begin, part.replace("$RULE", rule_of(backend))));
            let said = [0, 1].map(|index: usize| (said[index].0, said[index].1.as_str()));
            let said = is_said(&answer, &said);
            failed.extend(said.err().map(|error| format!("{backend}: {to}: {error}")));
            // It is so: who answers sees whether it was the pod that asked.
            let seen = pods[0].namespace.ask_tcp(at(to)).unwrap().peer.ip();
            let own = [at("10.200.0.2"), at("fd00:200::2")].contains(&seen);
            if own == answer.stdout.contains("out masquerade yes") {
                failed.push(format!(
                    "{backend}: {to}: came from {seen}: {}",
                    answer.stdout
                ));
            }
        }
        expect_none(failed);
    }
}

#[test]
fn another_node_s_pod_and_what_comes_from_it() {
    let Some(patient) = Patient::new("trace-other") else {
        return;
    };
    for (address, range, via) in [
        ("10.200.2.7", "10.200.2.0/24", "192.168.199.212"),
        ("fd00:200:0:2::7", "fd00:200:0:2::/64", "fd99::212"),
    ] {
        let route = format!("out route {range} via={via} dev=eth0");
        let hop = format!("out next-hop {via} dev=eth0 node=k8sworker2");
        let expected = [("out node k8sworker2", address), (&route, ""), (&hop, "")];
        is_said(&trace(&patient, address), &expected).unwrap();
        let from_pod = trace(&patient, &format!("10.200.0.2 --to {address}"));
        is_said(&from_pod, &[(&route, ""), (&hop, "")]).unwrap();
    }
    let back = trace(&patient, "10.200.2.7 --to 192.168.199.210:8080");
    let pod = format!("in pod {NETWORK}/{}/eth0", patient.pods[0].id);
    is_said(
        &back,
        &[("out host-port tcp/8080", "to=10.200.0.2:80"), (&pod, "")],
    )
    .unwrap();
    let outside = trace(&patient, "eth0 --to [fd99::210]:8081");
    let pod = format!("in pod {NETWORK}/{}/eth0", patient.pods[1].id);
    is_said(&outside, &[("out masquerade no", ""), (&pod, "")]).unwrap();
}

/// Lines of shell that break something, what is asked then, how the line begins that has the fault,
/// what the fault is, and what mends it.
const BREAKS: [[&str; 5]; 7] = [
        [
            "nsenter --net=$POD ip link set eth0 down",
            "10.200.0.2",
            "out pod-link",
            "'it is down'",
            "nsenter --net=$POD ip link set eth0 up; nsenter --net=$POD ip route replace default via 10.200.0.1
             nsenter --net=$POD ip address replace fd00:200::2/64 dev eth0 nodad
             nsenter --net=$POD ip -6 route replace default via fd00:200::1",
        ],
        [
            "nsenter --net=$POD ip route del default",
            "10.200.0.2 --to 192.168.199.211",
            "out pod-route",
            "'no route leads to 192.168.199.211'",
            "nsenter --net=$POD ip route add default via 10.200.0.1",
        ],
        [
            "ip link set $VETH type bridge_slave state 1",
            "10.200.0.2",
            "in port",
            "'the port does not forward'",
            "ip link set $VETH type bridge_slave state 3",
        ],
        [
            "ip link set $VETH nomaster",
            "10.200.0.2",
            "out port",
            "'it is no port of a bridge'",
            "ip link set $VETH master cni0; bridge link set dev $VETH hairpin on",
        ],
        [
            "ip route add blackhole 10.200.1.9/32",
            "10.200.0.2 --to 10.200.1.9",
            "out route",
            "'the route is of kind blackhole'",
            "ip route del blackhole 10.200.1.9/32",
        ],
        [
            "iptables -I FORWARD -i cni0 -d 10.200.1.0/24 -j DROP",
            "10.200.0.2 --to 10.200.1.9",
            "out filter",
            "-i cni0 -j DROP",
            "iptables -D FORWARD -i cni0 -d 10.200.1.0/24 -j DROP",
        ],
        [
            "sysctl -qw net.ipv4.ip_forward=0",
            "10.200.0.2",
            "out forwarding ipv4",
            "'net/ipv4/ip_forward is 0'",
            "sysctl -qw net.ipv4.ip_forward=1",
        ],
];

#[test]
fn a_broken_path_says_where_and_why() {
    let Some(patient) = Patient::new("trace-broken") else {
        return;
    };
    let mut failed = Vec::new();
    for [done, words, begin, why, undone] in BREAKS {
        patient.sh(done);
        let found = eventually(|| {
            let answer = trace(&patient, words);
            let told = lines(&answer, begin);
            let told = told.iter().any(|line| {
                let fault = line.split_once(" fault=");
                fault.is_some_and(|(_, fault)| fault.contains(why))
            });
            match told && answer.status == 1 {
                true => Ok(()),
                false => Err(format!("{done}: {}{}", answer.stdout, answer.stderr)),
            }
        });
        failed.extend(found.err());
        patient.sh(undone);
        let mended = eventually(|| match trace(&patient, words) {
            answer if answer.status == 0 => Ok(()),
            answer => Err(format!(
                "after {undone}: {}{}",
                answer.stdout, answer.stderr
            )),
        });
        failed.extend(mended.err());
    }
    expect_none(failed);
}

#[test]
fn names_that_mean_nothing_and_a_namespace_without_a_cache() {
    let Some(patient) = Patient::new("trace-names") else {
        return;
    };
    for (words, reason) in [
        (
            "no-such-thing",
            "is no pod, namespace, address or link of this node",
        ),
        ("10.200.0.99", "neither a pod's"),
        ("/etc/hostname", "/etc/hostname"),
        ("10.200.0.2 --to 10.200.0.2/24", "--to"),
    ] {
        let answer = trace(&patient, words);
        assert_eq!(answer.status, 2, "{words}: {answer:?}");
        assert!(answer.stderr.contains(reason), "{words}: {answer:?}");
        assert_eq!(answer.stdout, "", "{words}");
    }
    // The links themselves say whose they are.
    let netns = patient.expand("$POD");
    let words = format!("trace {netns} --cache-dir /nonexistent --output json");
    let alone = patient.segment.podnet(0, &words);
    let path = &alone.ok()["paths"][0];
    assert_eq!(
        path["pod"],
        Value::from(format!("{NETWORK}/{}/eth0", patient.pods[0].id))
    );
    assert_eq!(path["netns"], Value::from(netns));
    let hops = path["hops"].as_array().unwrap();
    let qdisc = hops.iter().find(|hop| hop["hop"] == "qdisc").unwrap();
    assert_eq!(qdisc["facts"]["rate"], "8000000bit");
    assert_eq!(alone.json["faults"], 0);
}
