//! Host ports that two pods of one node ask for.

use super::workload::{HostPort, PodSpec};
use super::{Note, Weight};

/// Pairs of host ports that one node would have to serve twice.
pub(super) fn clashes(pods: &[PodSpec], one_node: bool) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for pod in pods {
        let together = one_node || pod.node.is_some();
        // A DaemonSet has one pod a node, whatever is written.
        if pod.replicas > 1 && together && pod.kind != "DaemonSet" {
            notes.extend(pod.ports.iter().map(|port| twice(pod, port)));
        }
    }
    for (index, pod) in pods.iter().enumerate() {
        let of_pod = pod.ports.iter().enumerate();
        for (place, port) in of_pod {
            let earlier = pod.ports.iter().take(place).map(|port| (pod, port));
            let others = pods.iter().take(index);
            let others = others.filter(|other| share_a_node(pod, other, one_node));
            let others = others.flat_map(|other| other.ports.iter().map(move |port| (other, port)));
            let mut all = earlier.chain(others);
            if let Some((other, taken)) = all.find(|(_, other)| other.clashes(port)) {
                let said = format!(
                    "hostPort {} of {} is that of {} as well ({}), and both are on one node",
                    text(port),
                    pod.name,
                    other.name,
                    taken.place
                );
                notes.push(Note::new(Weight::Wrong, &port.place, said));
            }
        }
    }
    notes
}

/// One of several pods of a workload has a host port of a node, and the others stay Pending.
fn twice(pod: &PodSpec, port: &HostPort) -> Note {
    let said = format!(
        "hostPort {} of {}: {} pods of it are on one node, and only one can have the port",
        text(port),
        pod.name,
        pod.replicas
    );
    Note::new(Weight::Wrong, &port.place, said)
}

/// Elsewhere the scheduler keeps pods with the same host port apart.
fn share_a_node(a: &PodSpec, b: &PodSpec, one_node: bool) -> bool {
    let everywhere = |pod: &PodSpec| pod.kind == "DaemonSet";
    let bound = |pod: &PodSpec| pod.node.is_some();
    let same = a.node.is_some() && a.node == b.node;
    let (a_all, b_all) = (everywhere(a), everywhere(b));
    one_node || same || (a_all && b_all) || (a_all && bound(b)) || (b_all && bound(a))
}

/// `8080/TCP`, with the node's address where there is one.
pub(super) fn text(port: &HostPort) -> String {
    let number = format!("{}/{}", port.port, port.protocol);
    match &port.host_ip {
        None => number,
        Some(ip) => format!("{number} at {ip}"),
    }
}
