//! A second ADD of an attachment is refused, and what the first one made stays.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Node, Pod, address, with};

const ROUNDS: usize = 20;

/// A node that has its bridge, with a configuration.
struct Case {
    node: Node,
    config: Value,
}

impl Case {
    /// With an IPAM, or at layer 2.
    fn new(label: &str, layer3: bool) -> Option<Case> {
        let node = Node::new(label)?;
        let layer2 = json!({ "ipam": {}, "isGateway": false });
        let more = if layer3 {
            json!({ "ipMasq": true })
        } else {
            layer2
        };
        let case = Case {
            config: node.bridge_config(more),
            node,
        };
        // What all pods share comes with the first.
        let first = case.node.pod("first");
        case.call("ADD", &first, &case.config).ok();
        case.call("DEL", &first, &case.config).ok();
        Some(case)
    }

    fn both(label: &str) -> impl Iterator<Item = Case> {
        let cases = [("layer2", false), ("layer3", true)];
        cases
            .into_iter()
            .filter_map(move |(name, layer3)| Case::new(&format!("{label}-{name}"), layer3))
    }

    fn call(&self, command: &str, pod: &Pod, config: &Value) -> tests::Answer {
        self.node.call("bridge", command, pod, config, &[])
    }

    /// A namespace under the id that another has as well.
    fn pod(&self, namespace: &str) -> Pod {
        Pod {
            id: "one".to_owned(),
            ..self.node.pod(namespace)
        }
    }

    fn check(&self, pod: &Pod, result: &Value) {
        let config = with(&self.config, "prevResult", result);
        self.call("CHECK", pod, &config).ok();
    }

    fn snapshot(&self) -> lab::Snapshot {
        self.node.snapshot("testnet")
    }
}

const REFUSED: [&str; 2] = [
    "container veth name (\"eth0\") peer provided (\"veth",
    ") already exists",
];

fn links(pod: &Pod) -> usize {
    pod.namespace.netlink().unwrap().links().unwrap().len()
}

#[test]
fn in_another_namespace_it_leaves_the_first_alone() {
    for case in Case::both("again") {
        let (first, second) = (case.pod("first-of-id"), case.pod("second-of-id"));
        let result = case.call("ADD", &first, &case.config).ok().clone();
        let before = case.snapshot();

        for pod in [&second, &first] {
            let again = case.call("ADD", pod, &case.config);
            again.expect_refused("again", 103, &REFUSED);
            assert_eq!(case.snapshot(), before);
            case.check(&first, &result);
        }
        assert_eq!(links(&second), 1);
        if result["ips"].is_array() {
            case.node.namespace.ping(address(&result)).unwrap();
        }
        case.call("DEL", &first, &case.config).ok();
    }
}

/// Also where the host veth is not found by its name, so that the IPAM is asked.
#[test]
fn the_reservation_stays_where_the_ipam_refuses() {
    let Some(case) = Case::new("again-ipam", true) else {
        return;
    };
    let (first, second) = (case.pod("first-of-id"), case.pod("second-of-id"));
    let result = case.call("ADD", &first, &case.config).ok().clone();
    let veth = result["interfaces"][1]["name"].as_str().unwrap();
    let rename = |from, to| {
        let words = ["link", "set", from, "name", to];
        case.node.namespace.read("ip", &words).unwrap();
    };
    rename(veth, "renamed");
    let before = case.snapshot();
    let words = ["duplicate allocation is not allowed"];
    let again = case.call("ADD", &second, &case.config);
    again.expect_refused("again", 103, &words);
    assert_eq!(case.snapshot(), before);
    assert_eq!(links(&second), 1);
    rename("renamed", veth);
    case.check(&first, &result);
}

#[test]
fn of_two_at_once_exactly_one_wins() {
    for case in Case::both("again-race") {
        let case = &case;
        let pods = [case.pod("left"), case.pod("right")];
        let untouched = case.snapshot();
        for round in 0..ROUNDS {
            let answers = std::thread::scope(|scope| {
                let start = |pod| scope.spawn(move || case.call("ADD", pod, &case.config));
                let [left, right] = &pods;
                [start(left), start(right)].map(|thread| thread.join().unwrap())
            });
            let (won, lost): (Vec<_>, Vec<_>) = pods
                .iter()
                .zip(&answers)
                .partition(|(_, answer)| answer.status == 0);
            let ([(winner, result)], [(loser, refused)]) = (&won[..], &lost[..]) else {
                panic!("round {round}: {answers:?}");
            };
            assert_eq!(refused.error().0, 103, "round {round}: {refused:?}");
            assert_eq!(links(loser), 1, "round {round}");
            case.check(winner, result.ok());
            case.call("DEL", winner, &case.config).ok();
            assert_eq!(case.snapshot(), untouched, "round {round}");
        }
    }
}
