//! `podnet lint` as a person calls it, with the plugins themselves.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tests::{Answer, plugin_folder, podnet};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf");

/// A folder with the pod of the worked example, a folder of conflists with one, and every plugin.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        plugin_folder(&desk.path("bin"));
        fs::create_dir(desk.path("net.d")).unwrap();
        let conf = Path::new(ROOT);
        fs::copy(
            conf.join("10-k8nd.conflist"),
            desk.path("net.d/10-k8nd.conflist"),
        )
        .unwrap();
        for file in ["shaped.yaml", "cluster.yaml"] {
            fs::copy(conf.join("lab").join(file), desk.path(file)).unwrap();
        }
        desk
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    fn lint(&self, line: &str) -> Answer {
        let words = ["lint", "--cni-path", "bin", "--conf-dir", "net.d"];
        let words: Vec<&str> = words.into_iter().chain(line.split_whitespace()).collect();
        podnet(self.0.path(), &words, "")
    }

    /// The whole chain's list, with its plugins changed.
    fn write(&self, file: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let text = fs::read(self.path("net.d/10-k8nd.conflist")).unwrap();
        let mut list: Value = serde_json::from_slice(&text).unwrap();
        change(list["plugins"].as_array_mut().unwrap());
        fs::write(self.path(file), list.to_string()).unwrap();
    }
}

/// That the answer has a line, and the exit status that goes with it.
#[track_caller]
fn expect_line(answer: &Answer, status: i32, line: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let mut lines = answer.stdout.lines();
    assert!(lines.any(|one| one == line), "{line}: {}", answer.stdout);
}

#[test]
fn the_whole_chain_is_good() {
    let desk = Desk::new();
    let whole = desk.lint("-f shaped.yaml");
    assert_eq!((whole.status, whole.stderr.as_str()), (0, ""), "{whole:?}");
    expect_line(&whole, 0, "conflist=net.d/10-k8nd.conflist");
    expect_line(&whole, 0, "hostport_plugin=portmap");
    let portmap =
        "plugin=portmap file=bin/portmap versions=0.1.0,0.2.0,0.3.0,0.3.1,0.4.0,1.0.0,1.1.0";
    expect_line(&whole, 0, portmap);
    let json = desk.lint("-f shaped.yaml --output json");
    assert_eq!(json.ok()["pods"][0]["egress_annotation"], "1M");
    assert_eq!(json.ok()["plugins"][0]["file"], "bin/bridge");
}

#[test]
fn what_is_ignored_is_named() {
    for (kind, capability, place, ignored) in [
        ("portmap", "portMappings", 16, "hostPort 8080/TCP"),
        (
            "bandwidth",
            "bandwidth",
            8,
            "annotation kubernetes.io/ingress-bandwidth",
        ),
    ] {
        let desk = Desk::new();
        desk.write("few.conflist", |plugins| {
            plugins.retain(|plugin| plugin["type"] != kind)
        });
        let begin = format!("ignored: shaped.yaml:{place}: {ignored} of k8nd-cni/shaped: ");
        let reason = format!(
            "no plugin of the chain of \"k8nd-pod-network\" has the capability {capability}"
        );
        expect_line(
            &desk.lint("few.conflist -f shaped.yaml"),
            1,
            &format!("{begin}{reason}"),
        );

        fs::remove_file(desk.path("bin").join(kind)).unwrap();
        let gone = desk.lint("-f shaped.yaml");
        expect_line(&gone, 1, &format!("{begin}{kind} is not installed"));
        let chain = format!("wrong: plugin {kind} of the chain is not installed: no pod starts");
        expect_line(&gone, 1, &chain);
        assert_eq!(desk.lint("-f shaped.yaml --offline").status, 0);
    }
}

#[test]
fn a_folder_and_the_nodes_range() {
    let desk = Desk::new();
    desk.write("net.d/05-first.conflist", |plugins| {
        plugins[0]["isGatway"] = true.into()
    });
    let answer = desk.lint("");
    expect_line(&answer, 1, "conflist=net.d/05-first.conflist");
    expect_line(
        &answer,
        1,
        "because=the first of 2 in the order of their names",
    );
    assert!(
        answer
            .stdout
            .contains("plugins[0].isGatway: no plugin knows this key"),
        "{answer:?}"
    );

    let range = |node: &str| {
        desk.lint(&format!(
            "net.d/10-k8nd.conflist -f cluster.yaml --for {node}"
        ))
    };
    assert_eq!(range("lab-node-0").status, 0);
    let line = "wrong: net.d/10-k8nd.conflist:13: subnet 10.244.0.0/24 is no part of the node's range \
                10.244.1.0/24";
    expect_line(&range("lab-node-1"), 1, line);
    assert_eq!(range("other").status, 2);

    fs::remove_dir_all(desk.path("net.d")).unwrap();
    let none = desk.lint("");
    expect_line(&none, 1, "wrong: there is no network configuration");
}

#[test]
fn bad_input() {
    let desk = Desk::new();
    fs::write(desk.path("bad.yaml"), "kind: Pod\nspec: [\n").unwrap();
    for (line, said) in [
        ("none.conflist", "podnet: cannot read none.conflist: "),
        ("-f none.yaml", "podnet: cannot read none.yaml: "),
        ("-f bad.yaml", "podnet: bad.yaml:"),
        (
            "-f cluster.yaml -f cluster.yaml",
            "podnet: cluster.yaml:2: a second file without",
        ),
    ] {
        let answer = desk.lint(line);
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (2, ""),
            "{answer:?}"
        );
        assert!(answer.stderr.starts_with(said), "{line}: {}", answer.stderr);
    }
}

#[test]
fn what_never_ends_keeps_nobody() {
    let desk = Desk::new();
    let hangs = desk.path("bin/portmap");
    fs::remove_file(&hangs).unwrap();
    fs::write(&hangs, "#!/bin/sh\nexec sleep 300\n").unwrap();
    fs::set_permissions(&hangs, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", desk.path("net.d/00-x.conflist")).unwrap();
    let answer = desk.lint("");
    assert_eq!(answer.status, 1, "{answer:?}");
    for said in [
        "no answer within 5 s",
        "00-x.conflist: it comes first and cannot be read",
    ] {
        let mut wrong = answer
            .stdout
            .lines()
            .filter(|line| line.starts_with("wrong: "));
        assert!(wrong.any(|line| line.contains(said)), "{said}: {answer:?}");
    }
}

#[test]
fn values_that_a_plugin_refuses_and_a_manifest_that_the_api_does() {
    let desk = Desk::new();
    desk.write("odd.conflist", |plugins| {
        plugins[0]["isGateway"] = "true".into();
        plugins[1]["type"] = "../../bin/sh".into();
    });
    let answer = desk.lint("odd.conflist --offline");
    assert_eq!(answer.status, 1, "{answer:?}");
    for key in ["plugins[0].isGateway: ", "plugins[1].type: "] {
        let mut wrong = answer
            .stdout
            .lines()
            .filter(|line| line.starts_with("wrong: odd.conflist"));
        assert!(wrong.any(|line| line.contains(key)), "{key}: {answer:?}");
    }
    let bad =
        "kind: Pod\nmetadata: {name: bad}\nspec:\n  containers:\n  - ports:\n    - hostPort: x\n";
    fs::write(desk.path("bad.yaml"), bad).unwrap();
    let answer = desk.lint("-f bad.yaml -f shaped.yaml");
    let wrong = "wrong: bad.yaml:6: spec.containers[0].ports[0].hostPort: ";
    let mut lines = answer.stdout.lines();
    assert!(lines.any(|line| line.starts_with(wrong)), "{answer:?}");
    expect_line(&answer, 1, "hostport_plugin=portmap");
    fs::write(desk.path("bad.yaml"), "kind: Pod\nspec:\n  containers: 3\n").unwrap();
    let wrong = "wrong: bad.yaml:3: spec.containers: invalid type: integer `3`, expected a list";
    expect_line(&desk.lint("-f bad.yaml"), 1, wrong);
}
