mod keys_known;
mod wishes;

use serde_json::{Value, json};

use super::*;

const SHAPED: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: shaped
  namespace: k8nd-cni
  annotations:
    kubernetes.io/ingress-bandwidth: 1M
    kubernetes.io/egress-bandwidth: 1M
spec:
  containers:
  - name: web
    image: nginx:1.27-alpine
    ports:
    - containerPort: 8080
      hostPort: 8080
";

fn chain() -> Value {
    let text = include_bytes!("../../../conf/10-k8nd.conflist");
    serde_json::from_slice(text).unwrap()
}

/// The list without a plugin.
fn without(kind: &str) -> Value {
    let mut list = chain();
    let plugins = list["plugins"].as_array_mut().unwrap();
    plugins.retain(|plugin| plugin["type"] != kind);
    list
}

fn file(name: &str, list: &Value) -> ConfFile {
    ConfFile::new(name, format!("{list:#}").as_bytes())
}

fn pods_of(text: &str) -> Vec<PodSpec> {
    let (pods, refused) = pods(&Document::parse_all("p.yaml", text).unwrap());
    assert_eq!(refused, []);
    pods
}

fn input(list: &Value, manifests: &str) -> Input {
    Input {
        files: vec![file("10.conflist", list)],
        pods: pods_of(manifests),
        ..Input::default()
    }
}

/// Whether it is good, and the lines behind those about the conflist.
fn said(input: &Input) -> (bool, Vec<String>) {
    let report = lint(input);
    let text = report.text();
    let lines = text.lines().filter(|line| {
        let head = ["conflist=", "because=", "network=", "plugins="];
        !head.iter().any(|head| line.starts_with(head))
    });
    (report.is_good(), lines.map(str::to_owned).collect())
}

#[test]
fn the_whole_chain_does_it_all() {
    let report = lint(&input(&chain(), SHAPED));
    assert!(report.is_good());
    assert_eq!(
        report.text(),
        "conflist=10.conflist
because=the only one
network=k8nd-pod-network
plugins=bridge,host-local,portmap,bandwidth
pod=k8nd-cni/shaped
hostport_plugin=portmap
bandwidth_plugin=bandwidth
ingress_annotation=1M
egress_annotation=1M
"
    );
    let json = report.to_json();
    assert_eq!(json["pods"][0]["hostport_plugin"], "portmap");
    assert_eq!(json["pods"][0]["ignored"], json!([]));
}

#[test]
fn what_no_plugin_does_is_ignored_and_named() {
    let (good, lines) = said(&input(&without("portmap"), SHAPED));
    assert!(!good);
    assert_eq!(
        lines,
        [
            "pod=k8nd-cni/shaped",
            "bandwidth_plugin=bandwidth",
            "ingress_annotation=1M",
            "egress_annotation=1M",
            "ignored: p.yaml:15: hostPort 8080/TCP of k8nd-cni/shaped: no plugin of the chain of \
             \"k8nd-pod-network\" has the capability portMappings",
        ]
    );
    let (good, lines) = said(&input(&without("bandwidth"), SHAPED));
    assert!(!good);
    assert_eq!(
        lines[1..],
        [
            "hostport_plugin=portmap",
            "ignored: p.yaml:7: annotation kubernetes.io/ingress-bandwidth of k8nd-cni/shaped: no \
             plugin of the chain of \"k8nd-pod-network\" has the capability bandwidth",
            "ignored: p.yaml:8: annotation kubernetes.io/egress-bandwidth of k8nd-cni/shaped: no plugin \
             of the chain of \"k8nd-pod-network\" has the capability bandwidth",
        ]
    );
    // It is there, but is never told.
    let mut mute = chain();
    mute["plugins"][1]
        .as_object_mut()
        .unwrap()
        .remove("capabilities");
    let (_, lines) = said(&input(&mute, SHAPED));
    assert!(
        lines.last().unwrap().contains("portmap is in the chain"),
        "{lines:?}"
    );
    let mut own = chain();
    own["plugins"][2]["ingressRate"] = json!(1000);
    let (_, lines) = said(&input(&own, SHAPED));
    assert!(
        lines
            .last()
            .unwrap()
            .contains("rates in the conflist, which win"),
        "{lines:?}"
    );
    let (good, lines) = said(&Input {
        pods: pods_of(SHAPED),
        ..Input::default()
    });
    assert!(!good);
    assert_eq!(lines[0], "wrong: there is no network configuration");
    assert_eq!(lines.len(), 5);
}

#[test]
fn binaries() {
    let versions = |versions: &[&str]| Ok(versions.iter().map(|one| (*one).to_owned()).collect());
    let binary = |kind: &str, versions| Binary {
        kind: kind.to_owned(),
        file: Some(format!("/bin/{kind}").into()),
        versions,
    };
    let missing = Binary {
        file: None,
        ..binary("bandwidth", versions(&[]))
    };
    let input = Input {
        binaries: Some(vec![
            binary("bridge", versions(&["0.4.0", "1.0.0"])),
            binary("host-local", Err("it hangs".to_owned())),
            binary("portmap", versions(&["0.4.0"])),
            missing,
        ]),
        ..input(&chain(), SHAPED)
    };
    let (good, lines) = said(&input);
    assert!(!good);
    assert_eq!(
        lines,
        [
            "plugin=bridge file=/bin/bridge versions=0.4.0,1.0.0",
            "plugin=host-local file=/bin/host-local versions=",
            "plugin=portmap file=/bin/portmap versions=0.4.0",
            "plugin=bandwidth file= versions=",
            "wrong: plugin host-local (/bin/host-local) does not answer VERSION: it hangs",
            "wrong: plugin portmap (/bin/portmap) does not speak cniVersion 1.0.0 of the conflist, but \
             0.4.0",
            "wrong: plugin bandwidth of the chain is not installed: no pod starts",
            "pod=k8nd-cni/shaped",
            "hostport_plugin=portmap",
            "ignored: p.yaml:7: annotation kubernetes.io/ingress-bandwidth of k8nd-cni/shaped: bandwidth \
             is not installed",
            "ignored: p.yaml:8: annotation kubernetes.io/egress-bandwidth of k8nd-cni/shaped: bandwidth \
             is not installed",
        ]
    );
    let json = lint(&input).to_json();
    assert_eq!(json["plugins"][1]["error"], "it hangs");
    assert_eq!(json["plugins"][0]["supportedVersions"][1], "1.0.0");
}

#[test]
fn which_conflist_is_used_and_why() {
    let named = |name: &str| {
        let mut list = chain();
        list["name"] = json!(name);
        list
    };
    let used = |files: Vec<ConfFile>| {
        let report = lint(&Input {
            files,
            ..Input::default()
        });
        (
            report.network.clone().unwrap_or_default(),
            report.because.clone(),
            report.is_good(),
        )
    };
    let second = || file("d/20-b.conflist", &named("b"));
    assert_eq!(
        used(vec![second(), file("d/10-a.conflist", &named("a"))]),
        (
            "a".to_owned(),
            "the first of 2 in the order of their names".to_owned(),
            true
        )
    );
    let torn = ConfFile::new("d/05-torn.conflist", b"{\"name\":");
    let (name, because, good) = used(vec![second(), torn.clone()]);
    assert_eq!((name.as_str(), good), ("b", false));
    assert!(
        because.contains("that can be read; 1 before it cannot"),
        "{because}"
    );
    let (name, because, good) = used(vec![torn]);
    assert_eq!(
        (name.as_str(), because.as_str(), good),
        ("", "no network configuration can be read", false)
    );
}

#[test]
fn a_runtime_passes_over_what_is_named_as_the_other() {
    let mut single = chain()["plugins"][0].clone();
    single["name"] = json!("n");
    for (name, content, reason) in [
        ("d/05.conflist", &single, "it has no \"plugins\""),
        ("d/05.conf", &chain(), "it has \"plugins\""),
    ] {
        let report = lint(&Input {
            files: vec![file(name, content), file("d/10.conflist", &chain())],
            ..Input::default()
        });
        let text = report.text();
        assert!(text.starts_with("conflist=d/10.conflist\n"), "{text}");
        let said = "it comes first and cannot be read, so that containerd has no network";
        assert!(
            text.contains(&format!("{name}: {said}: {reason}")),
            "{text}"
        );
        assert!(!report.is_good());
    }
    let report = lint(&Input {
        files: vec![file("d/05.conf", &single)],
        ..Input::default()
    });
    assert_eq!(report.network.as_deref(), Some("n"));
}

#[test]
fn keys_that_nobody_knows() {
    let mut list = chain();
    list["disablecheck"] = json!(true);
    list["pluginz"] = json!([]);
    list["plugins"][0]["isGatway"] = json!(true);
    list["plugins"][0]["MTU"] = json!(1500);
    list["plugins"][0]["ipam"]["subnets"] = json!("x");
    list["plugins"][0]["ipam"]["routes"][1]["gateway"] = json!("10.244.0.1");
    list["plugins"][0]["example.com/mine"] = json!(1);
    list["plugins"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "type": "tuning", "sysctl": {} }));
    let (good, lines) = said(&input(&list, ""));
    assert!(!good);
    let keys: Vec<_> = lines
        .iter()
        .map(|line| line.split(": ").nth(2).unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "pluginz",
            "plugins[0].isGatway",
            "plugins[0].ipam.subnets",
            "plugins[0].ipam.routes[1].gateway"
        ]
    );
    let line = format!("{list:#}")
        .lines()
        .position(|line| line.contains("isGatway"))
        .unwrap()
        + 1;
    assert!(
        lines[1].starts_with(&format!("ignored: 10.conflist:{line}: ")),
        "{}",
        lines[1]
    );
    for shipped in ["10-k8nd-lite", "20-dual-stack", "30-ipv6", "90-every-key"] {
        let path = format!("{}/../conf/{shipped}.conflist", env!("CARGO_MANIFEST_DIR"));
        let text: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(said(&input(&text, "")).1, [""; 0], "{shipped}");
    }
}

#[test]
fn subnets_keep_to_the_nodes_range() {
    let of = |ranges: &[&str]| {
        let ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
        said(&Input {
            ranges: Some(ranges),
            ..input(&chain(), "")
        })
    };
    assert_eq!(of(&["10.244.0.0/24"]), (true, vec![]));
    assert_eq!(of(&["fd00::/64", "10.244.0.0/16"]), (true, vec![]));
    let (good, lines) = of(&["10.244.1.0/24"]);
    assert!(!good);
    let said = "subnet 10.244.0.0/24 is no part of the node's range 10.244.1.0/24";
    assert!(lines[0].ends_with(said), "{lines:?}");
    assert!(lines[0].starts_with("wrong: 10.conflist:"), "{lines:?}");
}

#[test]
fn files_are_told_apart() {
    let documents = |text: &str| Document::parse_all("f", text).unwrap();
    let (manifests, cluster) = sort(documents("podSubnet: 10.0.0.0/8\n---\nkind: Pod\n")).unwrap();
    assert_eq!((manifests.len(), cluster.is_some()), (1, true));
    let error = sort(documents("a: 1\n---\nb: 1\n")).unwrap_err();
    assert!(
        error.to_string().starts_with("f:3: a second file without"),
        "{error}"
    );
}

#[test]
fn no_type_makes_a_line_of_its_own() {
    let mut list = chain();
    list["plugins"][1]["type"] = json!("x\nhostport_plugin=portmap");
    let text = lint(&input(&list, SHAPED)).text();
    assert!(text.contains("x\\nhostport_plugin=portmap"), "{text}");
    assert!(!text.contains("\nhostport_plugin=portmap"), "{text}");
}
