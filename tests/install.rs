//! `podnet install` and `podnet uninstall`, and `make`'s targets of these names, below a folder of
//! the test's own.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::find_tool;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Answer, binary_folder, podnet, sh, write_script};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const INSTALLED: &str = ".cni-lite-installed";
const PLUGINS: [&str; 5] = ["bandwidth", "bridge", "host-local", "loopback", "portmap"];
const CONFLIST: &str = include_str!("../conf/10-k8nd.conflist");

/// A node's file system, and a folder of programs that stand for what is built: small ones, and a
/// podnet that calls the real one.
struct Node(TempDir);

impl Node {
    fn new() -> Node {
        let node = Node(tempfile::tempdir().unwrap());
        fs::create_dir(node.built()).unwrap();
        node.build("first");
        let podnet = binary_folder().canonicalize().unwrap().join("podnet");
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", podnet.display());
        let file = node.0.path().join("script");
        write_script(&file, &script);
        copy(&file, &node.built().join("podnet"));
        node
    }

    /// Stands for a build of that version.
    fn build(&self, version: &str) {
        for plugin in PLUGINS {
            let text = format!("#!{plugin}, {version}");
            fs::write(self.built().join(format!("{plugin}-lite")), text).unwrap();
        }
    }

    fn built(&self) -> PathBuf {
        self.0.path().join("built")
    }

    /// What stands for `/`.
    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn bin(&self) -> PathBuf {
        self.root().join("opt/cni/bin")
    }

    fn conf(&self) -> PathBuf {
        self.root().join("etc/cni/net.d")
    }

    /// A file of another in the folder of plugins.
    fn another(&self, name: &str) {
        fs::create_dir_all(self.bin()).unwrap();
        fs::write(self.bin().join(name), "another's").unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.bin().join(name)).unwrap()
    }

    /// Runs a target of the Makefile without building anything; what it says. `None`, said aloud,
    /// where there is no make.
    fn make(&self, target: &str, more: &[&str]) -> Option<String> {
        let Some(make) = find_tool("make") else {
            lab::skip("no make");
            return None;
        };
        let mut make = Command::new(make);
        make.current_dir(ROOT)
            .args(["--old-file=build", target])
            .arg(format!("BIN={}", self.built().display()))
            .arg(format!("DESTDIR={}", self.root().display()))
            .args(more);
        // Those of a make around this test.
        for name in [
            "MAKEFLAGS",
            "MFLAGS",
            "MAKELEVEL",
            "PREFIX",
            "CONF_DIR",
            "STANDARD_NAMES",
        ] {
            make.env_remove(name);
        }
        let output = make.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "make {target}: {said}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// Runs podnet with the node's folders.
    #[track_caller]
    fn podnet(&self, command: &str, more: &[&str]) -> Answer {
        let (bin, conf, built) = (self.bin(), self.conf(), self.built());
        let path = |path: &PathBuf| path.display().to_string();
        let mut words = vec![command.to_owned()];
        words.extend([
            "--bin-dir".to_owned(),
            path(&bin),
            "--conf-dir".to_owned(),
            path(&conf),
        ]);
        if command == "install" {
            words.extend(["--from".to_owned(), path(&built)]);
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        podnet(self.0.path(), &words, "")
    }

    /// The files of both folders, the lists excepted.
    fn all(&self) -> Vec<String> {
        [files(&self.bin()), files(&self.conf())].concat()
    }
}

/// By another process: a file that a process of several threads has written, another thread's child
/// may hold open, and then it cannot be run.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// What was put into the folder, or is another's.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != INSTALLED)
        .collect();
    names.sort();
    names
}

/// The plugins' own names and podnet's, in their order.
fn own_names() -> Vec<String> {
    let mut names: Vec<_> = PLUGINS.map(|plugin| format!("{plugin}-lite")).into();
    names.push("podnet".to_owned());
    names.sort();
    names
}

#[track_caller]
fn expect_said(answer: &Answer, lines: &[&str]) {
    assert_eq!(
        (answer.status, answer.stderr.as_str()),
        (0, ""),
        "{answer:?}"
    );
    for line in lines {
        assert!(
            answer.stdout.lines().any(|said| said == *line),
            "{line}: {answer:?}"
        );
    }
}

#[test]
fn with_standard_names_and_away_again() {
    let node = Node::new();
    let bin = node.bin();
    for _ in 0..2 {
        if node.make("install", &["STANDARD_NAMES=1"]).is_none() {
            return;
        }
    }
    let mut expected = own_names();
    expected.extend(PLUGINS.map(str::to_owned));
    expected.sort();
    assert_eq!(files(&bin), expected);
    for plugin in PLUGINS {
        assert_eq!(node.read(plugin), node.read(&format!("{plugin}-lite")));
    }
    for name in &expected {
        let mode = fs::metadata(bin.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }

    // Another's plugin under a standard name is none of ours.
    node.another("portmap");
    node.another("ptp");
    node.make("uninstall", &[]).unwrap();
    assert_eq!(files(&bin), ["portmap", "ptp"]);
    assert!(!bin.join(INSTALLED).exists());
    node.make("uninstall", &[]).unwrap();
    assert!(!node.conf().exists());
}

#[test]
fn an_older_copy_under_a_standard_name_is_ours_too() {
    let node = Node::new();
    node.another("bridge");
    let standard = ["STANDARD_NAMES=1"];
    let Some(said) = node.make("install", &standard) else {
        return;
    };
    let replaced: Vec<_> = said
        .lines()
        .filter(|line| line.contains("another's"))
        .collect();
    let bridge = node.bin().join("bridge").display().to_string();
    assert_eq!(replaced, [format!("replaced another's {bridge}")]);
    assert!(said.contains(&format!("\nbackup {bridge}.bak\n")), "{said}");
    let said = node.make("install", &standard).unwrap();
    assert!(!said.contains("another's"), "{said}");

    // The new version differs from the copies under standard names.
    node.build("second");
    node.make("install", &[]).unwrap();
    assert_eq!(node.read("bridge-lite"), "#!bridge, second");
    assert_eq!(node.read("bridge"), "#!bridge, first");
    node.make("uninstall", &[]).unwrap();
    assert_eq!(files(&node.bin()), ["bridge"]);
    assert_eq!(node.read("bridge"), "another's");
}

#[test]
fn beside_the_reference_plugins_in_a_folder_of_choice() {
    let node = Node::new();
    let bin = node.root().join("usr/lib/cni");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("bridge"), "another's").unwrap();
    if node.make("install", &["PREFIX=/usr/lib/cni"]).is_none() {
        return;
    }
    let mut expected = own_names();
    expected.push("bridge".to_owned());
    expected.sort();
    assert_eq!(files(&bin), expected);
    // By the one that is installed, where none is built.
    let none = format!("BIN={}", node.root().display());
    node.make("uninstall", &["PREFIX=/usr/lib/cni", &none])
        .unwrap();
    assert_eq!(files(&bin), ["bridge"]);
}

#[test]
fn a_compiler_that_prints_garbage_is_none() {
    let Some(make) = find_tool("make") else {
        lab::skip("no make");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("rustc", "echo garbage"), ("cargo", "exit 0")] {
        let program = folder.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let output = Command::new(make)
        .current_dir(ROOT)
        .arg("toolchain")
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no Rust toolchain"), "{said}");
}

#[test]
fn a_whole_node_and_back() {
    let node = Node::new();
    node.another("bridge");
    fs::create_dir_all(node.conf()).unwrap();
    fs::write(node.conf().join("10-net.conflist"), "another's").unwrap();
    fs::write(node.0.path().join("10-net.conflist"), CONFLIST).unwrap();
    let before = node.all();
    let (bin, conf) = (node.bin(), node.conf());
    let (bin, conf) = (bin.display(), conf.display());
    let words = ["--standard-names", "--conf", "10-net.conflist"];
    let said = node.podnet("install", &words);
    expect_said(
        &said,
        &[
            &format!("installed {bin}/bridge-lite"),
            &format!("replaced another's {bin}/bridge"),
            &format!("backup {bin}/bridge.bak"),
            &format!("installed {bin}/podnet"),
            &format!("replaced another's {conf}/10-net.conflist"),
            &format!("backup {conf}/10-net.conflist.bak"),
        ],
    );
    assert_eq!(said.stdout.lines().count(), 14);
    assert_eq!(
        fs::read_to_string(node.conf().join("10-net.conflist")).unwrap(),
        CONFLIST
    );

    let again = node.podnet("install", &[&words[..], &["--output", "json"]].concat());
    let files = again.ok()["files"].as_array().unwrap();
    assert_eq!(files.len(), 12);
    assert!(
        files.iter().all(|file| file["done"] == "unchanged"),
        "{again:?}"
    );
    node.build("second");
    let newer = node.podnet("install", &words);
    let updated = newer
        .stdout
        .lines()
        .filter(|line| line.starts_with("updated "));
    assert_eq!(updated.count(), 10, "{newer:?}");

    let gone = node.podnet("uninstall", &["--output", "json"]);
    let restored = json!({ "path": format!("{bin}/bridge"), "done": "restored" });
    let files = gone.ok()["files"].as_array().unwrap();
    assert!(files.contains(&restored), "{gone:?}");
    assert_eq!(files.len(), 12);
    assert_eq!(node.all(), before);
    assert_eq!(node.read("bridge"), "another's");
    expect_said(&node.podnet("uninstall", &[]), &[]);
}

#[test]
fn the_folder_that_it_is_run_from() {
    let node = Node::new();
    let own = node.built().join("podnet");
    copy(&binary_folder().join("podnet"), &own);
    let output = Command::new(&own)
        .args(["install", "--output", "json", "--bin-dir"])
        .arg(node.bin())
        .output()
        .unwrap();
    let answer = Answer::from(output);
    assert_eq!(answer.ok()["files"].as_array().unwrap().len(), 6);
    assert_eq!(files(&node.bin()), own_names());
    // From there the standard names are made, and nothing else.
    let output = Command::new(node.bin().join("podnet"))
        .args(["install", "--standard-names", "--bin-dir"])
        .arg(node.bin())
        .output()
        .unwrap();
    let said = Answer::from(output);
    let made = |line: &&str| line.starts_with("installed ");
    assert_eq!(said.stdout.lines().filter(made).count(), 5, "{said:?}");
    node.podnet("uninstall", &[]);
    assert_eq!(node.all(), [""; 0]);
}

#[test]
fn what_is_refused_changes_nothing() {
    let node = Node::new();
    node.another("bridge");
    fs::write(node.0.path().join("broken.conflist"), "{").unwrap();
    fs::write(node.0.path().join("net.txt"), CONFLIST).unwrap();
    let refused = |words: &[&str], status: i32, said: &str| {
        let answer = node.podnet("install", words);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.stderr.contains(said), "{answer:?}");
        assert_eq!(answer.stdout, "");
        assert_eq!(node.all(), ["bridge"]);
        assert!(!node.bin().join(INSTALLED).exists() && !node.conf().exists());
    };
    refused(
        &["--conf", "none.conflist"],
        2,
        "none.conflist: No such file",
    );
    refused(
        &["--conf", "broken.conflist"],
        2,
        "broken.conflist: error unmarshall",
    );
    refused(
        &["--conf", "net.txt"],
        2,
        "runtimes read files named *.conflist",
    );
    fs::write(node.0.path().join("list.conf"), CONFLIST).unwrap();
    refused(&["--conf", "list.conf"], 2, "list.conf: it has \"plugins\"");
    let single = r#"{"cniVersion": "1.0.0", "name": "n", "type": "bridge"}"#;
    fs::write(node.0.path().join("single.conflist"), single).unwrap();
    refused(
        &["--conf", "single.conflist"],
        2,
        "single.conflist: it has no \"plugins\"",
    );
    // Nobody writes into it: a reader would wait for ever.
    let pipe = node.0.path().join("pipe.conflist");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused(&["--conf", "pipe.conflist"], 2, "pipe.conflist: ");
    let portmap = node.built().join("portmap-lite");
    fs::write(&portmap, "").unwrap();
    refused(&[], 2, "portmap-lite is no program");
    fs::remove_file(&portmap).unwrap();
    refused(&[], 2, "portmap-lite is not in ");
    node.build("again");
    fs::create_dir_all(node.bin().join("bandwidth.bak")).unwrap();
    node.another("bandwidth");
    let answer = node.podnet("install", &["--standard-names"]);
    assert_eq!(answer.status, 1, "{answer:?}");
    for word in ["bandwidth is another's", "bandwidth.bak: that is there"] {
        assert!(answer.stderr.contains(word), "{answer:?}");
    }
    assert_eq!(node.all(), ["bandwidth", "bandwidth.bak", "bridge"]);
}

/// The file system ends while files are written, and while they are exchanged.
#[test]
fn what_fails_in_the_middle_leaves_nothing() {
    let Some(machine) = tests::Node::new("install") else {
        return;
    };
    let node = Node::new();
    let bin = node.bin().display().to_string();
    fs::create_dir_all(node.bin()).unwrap();
    let mut large = b"#!".to_vec();
    large.resize(2 << 20, 0);
    fs::write(node.built().join("portmap-lite"), large).unwrap();
    let install = format!(
        "{podnet} install --standard-names --from {built} --bin-dir {bin} 2>&1 && exit 9",
        podnet = node.built().join("podnet").display(),
        built = node.built().display(),
    );
    let look = format!("cd {bin}; ls -A; cat bridge 2>/dev/null || true");
    for (prepare, words) in [
        // portmap-lite is larger.
        (format!("mount -t tmpfs -o size=1M tmpfs {bin}"), "write "),
        // A mount can be read, but nothing renamed over it, nor linked.
        (
            format!(
                "mount -t tmpfs tmpfs {bin}; echo x > {bin}/podnet; mount --bind {bin}/podnet {bin}/podnet"
            ),
            "podnet",
        ),
    ] {
        let lines = format!(
            "{prepare}; echo another > {bin}/bridge; {look}; echo --; ({install}) || [ $? = 1 ]; echo --; {look}"
        );
        let script = format!("mount --make-rprivate /; {lines}");
        let said = sh(
            &machine.namespace,
            &format!("exec unshare --mount sh -ec '{script}'"),
        );
        let parts: Vec<&str> = said.split("--\n").collect();
        let [before, told, after] = parts[..] else {
            unreachable!("{said}");
        };
        assert!(
            told.starts_with("podnet: cannot ") && told.contains(words),
            "{said}"
        );
        assert_eq!(before, after, "{said}");
    }
}

#[test]
fn what_was_changed_since_is_left_and_said() {
    let node = Node::new();
    node.another("bridge");
    node.podnet("install", &["--standard-names"]).stdout.clear();
    fs::write(node.bin().join("bridge"), "changed").unwrap();
    let said = node.podnet("uninstall", &[]);
    let bridge = node.bin().join("bridge").display().to_string();
    let left = format!("left what is not as it was installed: {bridge}");
    expect_said(&said, &[&left, &format!("left the backup {bridge}.bak")]);
    assert_eq!(node.all(), ["bridge", "bridge.bak"]);
    let json: Value = node.podnet("uninstall", &["--output", "json"]).json;
    assert_eq!(json, json!({ "files": [] }));
}
