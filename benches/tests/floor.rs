//! The floor brings about what a chain does, and nothing of it stays.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use benches::{Contender, Floor, Node, Rules, Side};

/// Its first pod, as it is reached from the node and by its host port.
const POD: &str = "10.64.3.1:80";
const HOST_PORT: &str = "10.64.0.1:30001";

#[test]
fn a_pod_of_the_floor_is_served_and_gone() {
    if let Err(reason) = lab::supported() {
        lab::skip(&reason);
        return;
    }
    let folder = tests::binary_folder();
    let Some(program) = Floor::program(&folder) else {
        lab::skip("no floor beside the plugins");
        return;
    };
    let ours = Contender::look(Side::Ours, &folder).unwrap();
    for rules in Rules::ALL {
        let node = Node::new(&ours, rules).unwrap();
        if let Err(reason) = node.usable() {
            lab::skip(&format!("no {}: {reason}", rules.name()));
            continue;
        }
        let floor = Floor::new(&program, &node).unwrap();
        let before = node.snapshot().unwrap();
        let pod = floor.pod(1).unwrap();
        floor.time("add", &pod).unwrap();
        let made = node.snapshot().unwrap().since(&before);
        assert_eq!((made.links.len(), made.qdiscs.len()), (2, 3), "{made}");
        let at: SocketAddr = POD.parse().unwrap();
        let _server = pod.namespace().serve_tcp(at).unwrap();
        for address in [POD, HOST_PORT] {
            let seen = node.namespace.ask_tcp(address.parse().unwrap()).unwrap();
            assert_eq!(seen.local, at, "{} {address}", rules.name());
        }
        floor.time("del", &pod).unwrap();
        assert_eq!(node.snapshot().unwrap(), before, "{}", rules.name());
    }
}
