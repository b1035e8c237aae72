//! `podnet install` and `podnet uninstall` where something is not as it should be.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::{Answer, binary_folder};

const INSTALLED: &str = ".cni-lite-installed";
const PLUGINS: [&str; 5] = ["bandwidth", "bridge", "host-local", "loopback", "portmap"];
const CONFLIST: &str = include_str!("../conf/10-k8nd.conflist");
/// In bytes: what takes a while to be written.
const LARGE: usize = 64 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// Folders of a node, and one with small files that stand for the plugins.
struct Node(TempDir);

impl Node {
    fn new() -> Node {
        let node = Node(tempfile::tempdir().unwrap());
        fs::create_dir_all(node.path("built")).unwrap();
        for plugin in PLUGINS {
            let text = format!("#!{plugin}");
            fs::write(node.path(&format!("built/{plugin}-lite")), text).unwrap();
        }
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.path("root/bin").join(name)
    }

    /// podnet with the node's folders.
    fn command(&self, words: &[&str]) -> Command {
        let mut podnet = Command::new(binary_folder().join("podnet"));
        podnet
            .args(words)
            .arg("--bin-dir")
            .arg(self.path("root/bin"));
        podnet.arg("--conf-dir").arg(self.path("root/conf"));
        if words[0] == "install" {
            podnet.arg("--from").arg(self.path("built"));
        }
        podnet
    }

    fn podnet(&self, words: &[&str]) -> Answer {
        self.command(words).output().unwrap().into()
    }

    #[track_caller]
    fn expect(&self, words: &[&str], lines: &[&str]) -> Answer {
        let answer = self.podnet(words);
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
        answer
    }

    /// All names in the folder of plugins.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("root/bin")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Also where it has only begun to write, and what it wrote will be asked for by nobody again.
#[test]
fn what_one_that_was_killed_has_left_goes() {
    let node = Node::new();
    fs::create_dir_all(node.path("root/bin")).unwrap();
    fs::write(node.bin(".another.new"), "").unwrap();
    let mut large = b"#!".to_vec();
    large.resize(LARGE, 0);
    fs::write(node.path("built/portmap-lite"), large).unwrap();
    for next in ["install", "uninstall"] {
        let mut installs = node.command(&["install", "--standard-names"]);
        let mut installs = installs.stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + LIMIT;
        while !node.bin(".portmap.new").exists() && Instant::now() < end {}
        installs.kill().unwrap();
        installs.wait().unwrap();
        assert!(node.bin(".portmap.new").exists(), "{:?}", node.names());
        node.expect(&[next], &[]);
        let hidden = |name: &String| name.starts_with('.') && name != INSTALLED;
        let mut names = node.names();
        names.retain(hidden);
        assert_eq!(names, [".another.new"], "{next}");
        node.expect(&["uninstall"], &[]);
        assert_eq!(node.names(), [".another.new"], "{next}");
    }
}

#[test]
fn a_list_that_cannot_be_read_says_what_to_do() {
    let node = Node::new();
    node.expect(&["install"], &[]);
    let list = node.bin(INSTALLED);
    let names = node.names();
    let whole = fs::read_to_string(&list).unwrap();
    let refuses = |what: &str| {
        for command in ["install", "uninstall"] {
            let answer = node.podnet(&[command]);
            assert_eq!(
                (answer.status, answer.stdout.as_str()),
                (1, ""),
                "{answer:?}"
            );
            let said = format!(
                "podnet: cannot read {}, which lists what was installed: {what}; move it away, and all of \
                 that counts as another's\n",
                list.display()
            );
            assert_eq!(answer.stderr, said);
            assert_eq!(node.names(), names);
        }
    };
    let torn = "its last line has no end";
    for (text, what) in [
        (&b"\xff\xfe"[..], "it is no text"),
        (b"", "it is empty"),
        (b"some text\n", "its line 1 is no checksum and a name"),
        (&whole.as_bytes()[..whole.len() - 1], torn),
        (
            &whole.as_bytes()[..100],
            "its line 2 is no checksum and a name",
        ),
    ] {
        fs::write(&list, text).unwrap();
        refuses(what);
    }
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    refuses("it is no regular file");
    // As it says.
    fs::remove_dir(&list).unwrap();
    let unchanged = format!("unchanged {}", node.bin("bridge-lite").display());
    node.expect(&["install"], &[&unchanged]);
}

/// As the package does it.
#[test]
fn one_folder_for_both_is_looked_at_once() {
    let node = Node::new();
    node.expect(&["install"], &[]);
    fs::write(node.bin("bridge-lite"), "#!another").unwrap();
    let bin = node.path("root/bin");
    let mut podnet = Command::new(binary_folder().join("podnet"));
    podnet.args(["uninstall", "--bin-dir"]).arg(&bin);
    let answer: Answer = podnet.arg("--conf-dir").arg(&bin).output().unwrap().into();
    let left = "left what is not as it was installed:";
    assert_eq!(answer.stdout.matches(left).count(), 1, "{answer:?}");
    assert_eq!(
        (answer.status, node.names()),
        (0, vec!["bridge-lite".to_owned()])
    );
}

#[test]
fn without_a_list_that_is_said() {
    let node = Node::new();
    let (bin, conf) = (node.path("root/bin"), node.path("root/conf"));
    let said = format!(
        "nothing is listed as installed in {} and {}",
        bin.display(),
        conf.display()
    );
    node.expect(&["uninstall"], &[&said]);
    node.expect(&["install"], &[]);
    let gone = node.expect(&["uninstall"], &[]);
    assert!(!gone.stdout.contains("nothing is listed"), "{gone:?}");
    node.expect(&["uninstall"], &[&said]);
}

/// Where nobody can look, nobody can say that nothing is there.
#[test]
fn a_folder_that_cannot_be_looked_at() {
    let node = Node::new();
    let bin = node.path("root/bin");
    fs::create_dir(node.path("root")).unwrap();
    let refuses = |words: &str| {
        for command in ["install", "uninstall"] {
            let answer = node.podnet(&[command]);
            let got = (answer.status, answer.stdout.as_str());
            assert_eq!(got, (1, ""), "{answer:?}");
            let names = [bin.to_str().unwrap(), words];
            assert!(
                names.iter().all(|name| answer.stderr.contains(name)),
                "{answer:?}"
            );
        }
    };
    symlink("bin", &bin).unwrap();
    // ELOOP; its words are those of the C library.
    refuses("(os error 40)");
    fs::remove_file(&bin).unwrap();
    fs::write(&bin, "").unwrap();
    refuses("is there, and no folder");
    fs::remove_file(&bin).unwrap();
    // Whom nobody writes to: who opens it waits for ever.
    let made = Command::new("mkfifo").arg(&bin).status().unwrap();
    assert!(made.success());
    refuses("is there, and no folder");
}

#[test]
fn what_is_done_although_nobody_hears_it_is_told() {
    let node = Node::new();
    for (command, done) in [
        ("install", "all is installed"),
        ("uninstall", "what can be is taken back"),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut podnet = node.command(&[command]);
        let answer: Answer = podnet.stdout(full).output().unwrap().into();
        let said = format!("podnet: {done}, but cannot write to standard output: ");
        assert_eq!(answer.status, 1, "{answer:?}");
        assert!(answer.stderr.starts_with(&said), "{answer:?}");
        assert_eq!(node.bin("bridge-lite").exists(), command == "install");
    }
}

#[test]
fn one_folder_by_two_paths() {
    let node = Node::new();
    let file = node.path("10-n.conflist");
    fs::write(&file, CONFLIST).unwrap();
    fs::create_dir_all(node.path("root/bin")).unwrap();
    symlink("bin", node.path("root/conf")).unwrap();
    let answer = node.podnet(&["install", "--conf", file.to_str().unwrap()]);
    let (bin, conf) = (node.path("root/bin"), node.path("root/conf"));
    let said = format!(
        "podnet: {} and {} are one folder: name it alike, or another\n",
        bin.display(),
        conf.display()
    );
    assert_eq!((answer.status, answer.stderr), (2, said));
    assert_eq!(node.names(), [""; 0]);
    node.expect(&["install"], &[]);
    node.expect(&["uninstall"], &[]);
    assert_eq!(node.names(), [""; 0]);
}

#[test]
fn names_that_are_none_for_a_configuration() {
    let node = Node::new();
    for name in [
        ".hidden.conflist",
        "10\n.conflist",
        "10-\u{7f}.conflist",
        "10-\u{202e}n.conflist",
        " .conflist",
    ] {
        let file = node.path(name);
        fs::write(&file, CONFLIST).unwrap();
        let answer = node.podnet(&["install", "--conf", file.to_str().unwrap()]);
        assert_eq!(answer.status, 2, "{answer:?}");
        let said = format!("{name:?} is no name for a configuration");
        assert!(answer.stderr.contains(&said), "{answer:?}");
        assert!(!node.path("root").exists());
    }
}

#[test]
fn a_right_file_that_cannot_be_run_becomes_one_that_can() {
    let node = Node::new();
    node.expect(&["install", "--standard-names"], &[]);
    let bridge = node.bin("bridge");
    fs::set_permissions(&bridge, Permissions::from_mode(0o640)).unwrap();
    let said = format!("made executable {}", bridge.display());
    node.expect(&["install", "--standard-names"], &[&said]);
    assert_eq!(mode(&bridge), 0o755);
    // What fails later leaves it as it was.
    fs::set_permissions(&bridge, Permissions::from_mode(0o640)).unwrap();
    fs::write(node.path("built/host-local-lite"), "#!second").unwrap();
    fs::create_dir(node.bin(".host-local-lite.new")).unwrap();
    assert_eq!(node.podnet(&["install", "--standard-names"]).status, 1);
    assert_eq!(mode(&bridge), 0o640);
    fs::remove_dir(node.bin(".host-local-lite.new")).unwrap();
    // Another's is run as well, and stays another's.
    node.expect(&["uninstall"], &[]);
    fs::write(&bridge, "#!bridge").unwrap();
    let enabled = node.expect(&["install", "--standard-names", "--output", "json"], &[]);
    let files = enabled.json["files"].as_array().unwrap();
    let of_bridge = files
        .iter()
        .find(|file| file["path"] == *bridge.to_str().unwrap());
    assert_eq!(of_bridge.unwrap()["done"], "enabled");
    node.expect(&["uninstall"], &[]);
    assert_eq!(node.names(), ["bridge"]);
}

#[test]
fn folders_are_for_all_to_look_into() {
    let node = Node::new();
    let file = node.path("10-n.conflist");
    fs::write(&file, CONFLIST).unwrap();
    let folder = |name: &str| node.path(name).display().to_string();
    let installed = Command::new("sh")
        .args(["-c", "umask 077; exec \"$@\"", "sh"])
        .arg(binary_folder().join("podnet"))
        .args(["install", "--from", &folder("built")])
        .args([
            "--bin-dir",
            &folder("root/bin"),
            "--conf-dir",
            &folder("root/conf"),
        ])
        .arg("--conf")
        .arg(&file)
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    for folder in ["root", "root/bin", "root/conf"] {
        assert_eq!(mode(&node.path(folder)), 0o755, "{folder}");
    }
    assert_eq!(mode(&node.bin("bridge-lite")), 0o755);
    assert_eq!(mode(&node.path("root/conf/10-n.conflist")), 0o644);
}

/// It would go with `uninstall`.
#[test]
fn a_backup_of_another_s_making_is_not_used() {
    let node = Node::new();
    fs::create_dir_all(node.path("root/bin")).unwrap();
    for name in ["bridge", "bridge.bak"] {
        fs::write(node.bin(name), "another's").unwrap();
    }
    let answer = node.podnet(&["install", "--standard-names"]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let said = "bridge.bak: that is there already; move one of them away";
    assert!(answer.stderr.contains(said), "{answer:?}");
    assert_eq!(node.names(), ["bridge", "bridge.bak"]);
}
