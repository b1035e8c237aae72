//! Two pods with one host port.

use firewall::view::{Forwarding, shadowed};

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "hostport-shadowed",
    means: "Two pods have the same host port: all connections go to the one whose rule comes first, and the \
            other never gets one.",
    mend: "give one of them another host port (or another hostIP), and start it anew",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let pairs = shadowed(&case.node.rules.ports).into_iter();
    pairs.map(|(early, late)| finding(early, late)).collect()
}

fn finding(early: &Forwarding, late: &Forwarding) -> Finding {
    let (port, protocol) = (late.mapping.host_port, late.mapping.protocol);
    let breaks = format!(
        "host port {port}/{protocol} never leads to the pod {}",
        late.target
    );
    Finding::error(&KIND, breaks)
        .by(format!("first {}", described(early)))
        .by(format!("then {}", described(late)))
        .advised(format!(
            "give the pod {} another hostPort than {port}, and start it anew",
            late.target
        ))
}

fn described(port: &Forwarding) -> String {
    let mapping = &port.mapping;
    let ip = mapping
        .host_ip
        .map_or("any address".to_owned(), |ip| ip.to_string());
    let (target, backend, comment) = (port.target, port.backend, &port.comment);
    format!(
        "{ip} to {target}:{} by {backend} ({comment})",
        mapping.container_port
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, forwarding, ids};

    #[test]
    fn the_second_pod_of_one_port() {
        let mut fixture = Fixture::healthy();
        fixture.node.rules.ports = vec![
            forwarding(8080, "10.1.1.2", None),
            forwarding(8081, "10.1.1.3", None),
            forwarding(8080, "10.1.1.3", Some("192.0.2.11")),
        ];
        let found = fixture.look();
        assert_eq!(ids(&found), ["hostport-shadowed"]);
        assert_eq!(
            found[0].breaks,
            "host port 8080/tcp never leads to the pod 10.1.1.3"
        );
        fixture.node.rules.ports.swap(0, 2);
        assert_eq!(fixture.look(), []);
    }
}
