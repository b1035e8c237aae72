//! A host port on which a process of the node waits as well.

use std::net::IpAddr;

use firewall::view::Forwarding;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::node::Listener;

pub const KIND: Kind = Kind {
    id: "hostport-taken",
    means: "A process of the node listens on a port that leads to a pod: connections go to the pod, and \
            never to the process.",
    mend: "give the pod another host port, or the process another port",
    needs_plan: false,
    look,
};

/// Programs that open a pod's host port for nothing but to keep it from others.
const KEEPERS: [&str; 3] = ["conmon", "docker-proxy", "rootlessport"];

fn look(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for listener in &case.node.listeners {
        let ports = case.node.rules.ports.iter();
        let taken = ports
            .filter(|port| is_taken(port, listener))
            .map(|port| finding(port, listener));
        // A pod of two families has the port twice, and is hurt once.
        for one in taken {
            if !found.iter().any(|other| other.evidence == one.evidence) {
                found.push(one);
            }
        }
    }
    found
}

fn is_taken(port: &Forwarding, listener: &Listener) -> bool {
    let mapping = &port.mapping;
    let keeps = listener
        .process
        .as_ref()
        .is_some_and(|(_, name)| KEEPERS.contains(&name.as_str()));
    let same =
        mapping.host_port == listener.address.port() && mapping.protocol == listener.protocol;
    same && !keeps && meet(port, listener.address.ip())
}

/// Whether a connection to the listener's address may be one to the host port. `::` is every address
/// of IPv4 too; from `::1` nothing is forwarded.
fn meet(port: &Forwarding, ip: IpAddr) -> bool {
    let host_ip = port.mapping.host_ip.filter(|ip| !ip.is_unspecified());
    let same_family = ip.is_ipv4() == port.target.is_ipv4();
    match host_ip {
        _ if ip == IpAddr::V6(std::net::Ipv6Addr::LOCALHOST) => false,
        _ if ip.is_unspecified() => same_family || ip.is_ipv6(),
        None => same_family,
        Some(host_ip) => host_ip == ip,
    }
}

fn finding(port: &Forwarding, listener: &Listener) -> Finding {
    let (number, protocol) = (port.mapping.host_port, listener.protocol);
    let process = listener.process.as_ref();
    let process = process.map_or("a process".to_owned(), |(pid, name)| {
        format!("{name} (process {pid})")
    });
    let breaks = format!("{process} gets no connection to {number}/{protocol}: they go to a pod");
    Finding::warning(&KIND, breaks)
        .by(format!(
            "{process} listens on {}/{protocol}; {number} leads to pods: {}",
            listener.address, port.comment
        ))
        .advised(format!(
            "give the pod another hostPort than {number}, or {process} another port"
        ))
}

#[cfg(test)]
mod tests {
    use firewall::hostport::Protocol;

    use crate::findings::tests::{Fixture, forwarding, ids};
    use crate::node::Listener;

    #[test]
    fn who_waits_where() {
        for (address, name, host_ip, counts) in [
            ("0.0.0.0:8080", "nginx", None, true),
            ("[::]:8080", "nginx", None, true),
            ("127.0.0.1:8080", "nginx", None, true),
            ("192.0.2.11:8080", "nginx", Some("192.0.2.11"), true),
            ("127.0.0.1:8080", "nginx", Some("192.0.2.11"), false),
            ("0.0.0.0:8080", "nginx", Some("192.0.2.11"), true),
            ("[::1]:8080", "nginx", None, false),
            ("[2001:db8::11]:8080", "nginx", None, false),
            ("0.0.0.0:8081", "nginx", None, false),
            ("0.0.0.0:8080", "conmon", None, false),
        ] {
            let mut fixture = Fixture::healthy();
            fixture.node.rules.ports = vec![forwarding(8080, "10.1.1.2", host_ip)];
            fixture.node.listeners = vec![Listener {
                protocol: Protocol::Tcp,
                address: address.parse().unwrap(),
                process: Some((77, name.to_owned())),
            }];
            let found = fixture.look();
            assert_eq!(
                !found.is_empty(),
                counts,
                "{address} {host_ip:?}: {found:?}"
            );
            if counts {
                assert_eq!(ids(&found), ["hostport-taken"]);
                assert!(
                    found[0]
                        .breaks
                        .starts_with("nginx (process 77) gets no connection to 8080/tcp")
                );
            }
            fixture.node.listeners[0].protocol = Protocol::Udp;
            assert_eq!(fixture.look(), []);
        }
    }
}
