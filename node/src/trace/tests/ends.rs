//! Where packets end that go no farther than the pod or its link.

use super::*;
use crate::node::Listener;
use firewall::hostport::Protocol;

#[test]
fn nobody_forwards_what_is_for_all() {
    let mut fixture = fixture();
    set_up(&mut fixture);
    let mut broadcast = route("192.0.2.255/32", None, 2);
    (broadcast.kind, broadcast.route.table) = (Kind::Broadcast, Some(255));
    fixture.node.routes.push(broadcast);
    for to in ["255.255.255.255", "224.0.0.1:80", "192.0.2.255", "ff05::1"] {
        let lines = of_pod(&fixture, to);
        let why = faults(&lines);
        assert_eq!(why.len(), 1, "{to}: {lines:#?}");
        assert!(
            why[0].contains("no node forwards a broadcast or multicast"),
            "{why:?}"
        );
        assert!(
            !lines.iter().any(|line| line.contains("out forwarding")),
            "{lines:#?}"
        );
    }
}

#[test]
fn who_takes_a_port_in_the_pod() {
    let mut fixture = fixture();
    set_up(&mut fixture);
    let mut inside = inside();
    let mut own = route("127.0.0.0/8", None, 1);
    (own.kind, own.route.table) = (Kind::Local, Some(255));
    inside.routes.push(own);
    inside.listeners.push(Listener {
        protocol: Protocol::Tcp,
        address: "0.0.0.0:8081".parse().unwrap(),
        process: Some((7, "web".to_owned())),
    });
    let taken = lines(&fixture, Some(&inside), "pod", "127.0.0.1:8081");
    assert_eq!(faults(&taken), [""; 0]);
    let last = "out local 127.0.0.1 in='the pod' port=tcp/8081 process='web(7)'";
    assert_eq!(taken.last().map(String::as_str), Some(last));
    let nobody = lines(&fixture, Some(&inside), "pod", "127.0.0.1:8082");
    let why = faults(&nobody);
    assert!(
        why.len() == 1 && why[0].contains("no process in the pod takes it"),
        "{nobody:#?}"
    );
}
