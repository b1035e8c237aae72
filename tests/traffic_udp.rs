//! UDP flows that outlive the pod that answered them: the kernel asks the rules only for a flow's
//! first packet.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::UdpClient;
use tests::{Site, at, port, port_at, sh};

/// For what is expected not to be answered.
const SHORTLY: Duration = Duration::from_millis(700);
/// The node's addresses, of either family.
const NODE: [&str; 2] = ["192.0.2.10:5353", "[2001:db8::10]:5353"];

fn ports() -> [serde_json::Value; 1] {
    [port(5353, 80, "udp")]
}

/// A client outside for each family.
fn clients(site: &Site) -> [UdpClient; 2] {
    NODE.map(|target| site.outside.udp_client(at(target)).unwrap())
}

#[test]
fn a_constant_sender_reaches_the_new_pod() {
    let Some(site) = Site::new("replaced", &[]) else {
        return;
    };
    let clients = clients(&site);
    let first = site.pod("first", &ports());
    for client in &clients {
        assert!(first.answered(&client.ask().unwrap()));
    }
    site.del(&first);
    // A flow to the node itself now, which the rules of the next pod would not be asked for.
    for client in &clients {
        client.ask_within(Duration::ZERO).unwrap_err();
    }
    let second = site.pod("second", &ports());
    for client in &clients {
        let seen = client.ask().unwrap();
        assert!(second.answered(&seen), "{seen}");
    }
}

#[test]
fn a_constant_sender_reaches_a_pod_that_came_before_the_old_one_went() {
    let Some(site) = Site::new("both", &[]) else {
        return;
    };
    let clients = clients(&site);
    let first = site.pod("first", &ports());
    for client in &clients {
        assert!(first.answered(&client.ask().unwrap()));
    }
    // The first rule wins as long as both are there.
    let second = site.pod("second", &ports());
    site.del(&first);
    for client in &clients {
        let seen = client.ask().unwrap();
        assert!(second.answered(&seen), "{seen}");
    }
}

#[test]
fn without_a_pod_the_node_s_own_server_gets_the_datagrams() {
    let Some(site) = Site::new("node", &[]) else {
        return;
    };
    let clients = clients(&site);
    let pod = site.pod("pod", &ports());
    for client in &clients {
        assert!(pod.answered(&client.ask().unwrap()));
    }
    site.del(&pod);
    let _servers = NODE.map(|own| site.node.namespace.serve_udp(at(own)).unwrap());
    for (client, own) in clients.iter().zip(NODE) {
        assert_eq!(client.ask().unwrap().local, at(own));
    }
}

#[test]
fn the_flows_of_others_are_kept() {
    let Some(site) = Site::new("kept", &[]) else {
        return;
    };
    site.node
        .namespace
        .add_address("eth0", at("192.0.2.11/24"))
        .unwrap();
    let _server = site.node.namespace.serve_udp(at("192.0.2.10:7")).unwrap();
    let _server6 = site
        .node
        .namespace
        .serve_udp(at("[2001:db8::10]:7"))
        .unwrap();
    // Flows that go elsewhere than to the address and port that they are sent to, as long as the
    // kernel remembers them: the rule that made them so is gone.
    let bent = |tool: &str, target: &str, port: u16, to: &str| {
        let rule = format!("PREROUTING -d {target} -p udp --dport {port} -j DNAT --to {to}");
        sh(&site.node.namespace, &format!("{tool} -t nat -I {rule}"));
        let target = match tool {
            "iptables" => format!("{target}:{port}"),
            _ => format!("[{target}]:{port}"),
        };
        let client = site.outside.udp_client(at(&target)).unwrap();
        assert_eq!(client.ask().unwrap().local, at(to));
        sh(&site.node.namespace, &format!("{tool} -t nat -D {rule}"));
        client
    };
    let flows = [
        (
            "of another port",
            bent("iptables", "192.0.2.10", 6000, "192.0.2.10:7"),
        ),
        (
            "of another address",
            bent("iptables", "192.0.2.11", 5353, "192.0.2.10:7"),
        ),
        (
            "of the other family",
            bent("ip6tables", "2001:db8::10", 5353, "[2001:db8::10]:7"),
        ),
    ];
    let forgotten = site.outside.udp_client(at("192.0.2.10:6000")).unwrap();
    forgotten
        .ask_within(SHORTLY)
        .expect_err("a flow that is not remembered");

    let ports = [
        port_at("192.0.2.10", 5353, 80, "udp"),
        port(6000, 80, "tcp"),
    ];
    let pod = site.pod("pod", &ports);
    let remembered = || {
        for (which, client) in &flows {
            let seen = client
                .ask()
                .unwrap_or_else(|error| panic!("{which}: {error}"));
            assert_eq!(seen.local.port(), 7, "{which}");
        }
    };
    remembered();
    site.del(&pod);
    remembered();
}
