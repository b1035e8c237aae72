//! What pods ask for, and where they ask for it.

use super::*;

#[test]
fn every_workload_has_its_pods() {
    let manifest = |kind: &str, spec: &Value| {
        json!({
            "kind": kind,
            "metadata": { "name": "x", "annotations": { "kubernetes.io/egress-bandwidth": "1M" } },
            "spec": spec, "template": spec,
        })
        .to_string()
    };
    let pod = json!({
        "metadata": { "annotations": { "kubernetes.io/ingress-bandwidth": "10M" } },
        "spec": { "initContainers": null, "containers": [{ "ports": [{ "hostPort": 80 }] }, { "ports": null }] },
    });
    for kind in [
        "Deployment",
        "DaemonSet",
        "StatefulSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
    ] {
        let (good, lines) = said(&input(
            &chain(),
            &manifest(kind, &json!({ "template": pod })),
        ));
        assert!(!good, "{kind}");
        assert_eq!(
            lines[..4],
            [
                "pod=default/x",
                "hostport_plugin=portmap",
                "bandwidth_plugin=bandwidth",
                "ingress_annotation=10M"
            ],
            "{kind}"
        );
        let misplaced = format!("egress-bandwidth of {kind} default/x: it is on the {kind} itself");
        assert!(lines[4].contains(&misplaced), "{}", lines[4]);
    }
    let cron = manifest(
        "CronJob",
        &json!({ "jobTemplate": { "spec": { "template": pod } } }),
    );
    assert_eq!(said(&input(&chain(), &cron)).1.len(), 5);
    let list = format!(
        "kind: List\nitems: [{}, {}]",
        manifest("Service", &json!({})),
        cron
    );
    assert_eq!(pods_of(&list).len(), 1);
    let (_, refused) =
        pods(&Document::parse_all("p", "kind: Pod\nspec:\n  containers:\n  - ports: x").unwrap());
    let error = refused[0].to_string();
    assert!(
        error.starts_with("p:4: spec.containers[0].ports: invalid type"),
        "{error}"
    );
}

#[test]
fn rates_that_kubernetes_refuses() {
    let with = |value: &str| SHAPED.replacen("1M", value, 1);
    for (value, said_of) in [
        (
            "999",
            "\"999\" is out of Kubernetes' bounds: expected 1k to 1P",
        ),
        ("2P", "\"2P\" is out of"),
        ("-1M", "\"-1M\" is out of"),
        ("1Mbit", "\"1Mbit\" is no quantity"),
        ("1000000", "1000000 is no text"),
    ] {
        let value = if value == "999" { "'999'" } else { value };
        let (good, lines) = said(&input(&chain(), &with(value)));
        assert!(!good, "{value}");
        let found = lines
            .iter()
            .find(|line| line.starts_with("wrong: p.yaml:7: "));
        assert!(found.unwrap().contains(said_of), "{value}: {found:?}");
    }
    for value in ["1k", "1P", "1.5Gi", "'2e6'"] {
        assert!(said(&input(&chain(), &with(value))).0, "{value}");
    }
}

/// Pods, each with its kind, node, host network and port.
fn pods_with(all: &[(&str, &str, &str)]) -> Vec<PodSpec> {
    let manifest = |(index, (kind, node, port)): (usize, &(&str, &str, &str))| {
        let node = if node.is_empty() {
            String::new()
        } else {
            format!("nodeName: {node}, ")
        };
        let spec = format!("{{{node}containers: [{{ports: [{port}]}}]}}");
        let spec = match *kind {
            "Pod" => spec,
            _ => format!("{{template: {{spec: {spec}}}}}"),
        };
        format!("---\nkind: {kind}\nmetadata: {{name: p{index}}}\nspec: {spec}\n")
    };
    pods_of(&all.iter().enumerate().map(manifest).collect::<String>())
}

#[test]
fn host_ports_of_one_node() {
    let clash =
        |all: &[(&str, &str, &str)], one_node| ports::clashes(&pods_with(all), one_node).len();
    let port = "{hostPort: 80}";
    for (all, one_node, expected) in [
        ([("Pod", "a", port), ("Pod", "a", port)], false, 1),
        ([("Pod", "a", port), ("Pod", "b", port)], false, 0),
        ([("Pod", "", port), ("Pod", "", port)], false, 0),
        ([("Pod", "", port), ("Pod", "", port)], true, 1),
        ([("DaemonSet", "", port), ("DaemonSet", "", port)], false, 1),
        ([("DaemonSet", "", port), ("Pod", "a", port)], false, 1),
        (
            [("DaemonSet", "", port), ("Deployment", "", port)],
            false,
            0,
        ),
        (
            [
                ("Pod", "a", port),
                ("Pod", "a", "{hostPort: 80, protocol: UDP}"),
            ],
            false,
            0,
        ),
        (
            [
                ("Pod", "a", port),
                ("Pod", "a", "{hostPort: 80, hostIP: 10.0.0.1}"),
            ],
            false,
            1,
        ),
        (
            [
                ("Pod", "a", "{hostPort: 80, hostIP: 10.0.0.2}"),
                ("Pod", "a", "{hostPort: 80, hostIP: 10.0.0.1}"),
            ],
            false,
            0,
        ),
    ] {
        assert_eq!(clash(&all, one_node), expected, "{all:?}");
    }
    let twice = pods_with(&[("Pod", "", "{hostPort: 80}, {hostPort: 80}")]);
    let notes = ports::clashes(&twice, false);
    let said = "p.yaml:4: hostPort 80/TCP of default/p0 is that of default/p0 as well (p.yaml:4), and \
                both are on one node";
    assert_eq!(notes[0].said, said);
}

#[test]
fn odd_ports_and_pods_of_the_nodes_network() {
    let of = |port: &str| {
        let input = Input {
            pods: pods_with(&[("Pod", "", port)]),
            rootless: true,
            ..input(&chain(), "")
        };
        let (good, lines) = said(&input);
        (good, lines.last().cloned().unwrap())
    };
    let (good, line) = of("{hostPort: 80}");
    assert!(
        good && line.starts_with("warning: p.yaml:4: hostPort 80/TCP"),
        "{line}"
    );
    assert_eq!(of("{hostPort: 1024}").1, "hostport_plugin=portmap");
    for (port, said) in [
        ("{hostPort: 65536}", "expected a number from 1 to 65535"),
        (
            "{hostPort: 8080, protocol: tcp}",
            "expected the protocol TCP, UDP or SCTP",
        ),
        ("{hostPort: 8080, hostIP: x}", "its hostIP is no address"),
    ] {
        let (good, line) = of(port);
        assert!(!good && line.ends_with(said), "{line}");
    }
    assert!(
        of("{hostPort: 8080, hostIP: '::1'}")
            .1
            .contains("does not route ::1")
    );

    let host = SHAPED.replace("spec:\n", "spec:\n  hostNetwork: true\n");
    let (good, lines) = said(&input(&chain(), &host));
    assert!(!good);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("it has the node's network"), "{lines:?}");
}

#[test]
fn replicas_on_one_node() {
    let manifest = |kind: &str, count: &str| {
        format!(
            "kind: {kind}\nmetadata: {{name: web}}\nspec:\n  {count}: 3\n  template:\n    spec:\n      \
             containers:\n      - ports:\n        - hostPort: 80\n"
        )
    };
    for (kind, count, one_node, found) in [
        ("Deployment", "replicas", true, true),
        ("Job", "parallelism", true, true),
        ("Deployment", "replicas", false, false),
        ("DaemonSet", "replicas", true, false),
    ] {
        let input = Input {
            one_node,
            ..input(&chain(), &manifest(kind, count))
        };
        let (good, lines) = said(&input);
        assert_eq!(good, !found, "{kind}: {lines:?}");
        let wrong = "wrong: p.yaml:9: hostPort 80/TCP of default/web: 3 pods of it are on one node, and \
                     only one can have the port";
        assert_eq!(lines.iter().any(|line| line == wrong), found, "{lines:?}");
    }
}

#[test]
fn what_the_api_takes_and_what_it_refuses() {
    // An empty protocol is TCP's.
    let shaped = pods_of(&SHAPED.replace("hostPort: 8080", "hostPort: 8080\n      protocol: ''"));
    assert_eq!(shaped[0].ports[0].protocol, "TCP");
    for rate in [".inf", "-.inf", ".nan"] {
        let manifest = SHAPED.replacen(
            "ingress-bandwidth: 1M",
            &format!("ingress-bandwidth: {rate}"),
            1,
        );
        let (good, lines) = said(&input(&chain(), &manifest));
        let wrong =
            "wrong: p.yaml:7: annotation kubernetes.io/ingress-bandwidth of k8nd-cni/shaped: ";
        assert!(
            !good && lines.iter().any(|line| line.starts_with(wrong)),
            "{rate}: {lines:?}"
        );
    }
    // One that is refused leaves the others.
    let text =
        format!("kind: Pod\nspec:\n  containers:\n  - ports:\n    - hostPort: x\n---\n{SHAPED}");
    let (pods, refused) = pods(&Document::parse_all("p.yaml", &text).unwrap());
    assert_eq!(pods.len(), 1);
    let (good, lines) = said(&Input {
        refused,
        ..input(&chain(), "")
    });
    assert!(!good);
    assert!(
        lines[0].starts_with("wrong: p.yaml:5: spec.containers[0].ports[0].hostPort: "),
        "{lines:?}"
    );
}
