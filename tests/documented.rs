//! The commands of the pages, run as they are written there (`tests/documented`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::expect_none;

/// How the script says that the machine cannot run a group.
const CANNOT: i32 = 77;

/// Of clients, which `make test-clients` installs.
const OF_CLIENTS: [&str; 2] = ["containerd", "podman"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn documented(arguments: &[&str]) -> Output {
    let script = root().join("tests/documented");
    let mut script = Command::new(script);
    script.current_dir(root()).args(arguments).output().unwrap()
}

/// The groups of a page's commands.
fn groups(page: &str) -> Vec<String> {
    let listed = documented(&["--list", page]);
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Every page for people.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.map(|name| format!("docs/{name}"));
    let mut pages: Vec<_> = pages.chain(["README.md".to_owned()]).collect();
    pages.sort();
    pages
}

#[test]
fn commands_of_pages_do_what_the_pages_say() {
    if !root().join("target/bin/podnet").is_file() {
        lab::skip("nothing is built in target/bin (make build)");
        return;
    }
    let mut failed = Vec::new();
    let mut run = 0;
    for page in pages() {
        for group in groups(&page) {
            if OF_CLIENTS.contains(&group.as_str()) {
                continue;
            }
            let ran = documented(&[&page, &group]);
            let said = String::from_utf8_lossy(&ran.stderr);
            match ran.status.code() {
                Some(0) => run += 1,
                Some(CANNOT) => lab::skip(&format!("{page}, {group}: {said}")),
                _ => failed.push(format!("{page}, {group}:\n{said}")),
            }
        }
    }
    expect_none(failed);
    assert!(run > 3, "{run}");
}

/// Of a page with one block that is no group's, and two that are.
const PAGE: &str = "\
<!-- run: one
set +x
-->
```
exit 9
```
<!-- file: one hello.txt -->
```
a 'b' $c
```
<!-- run: one -->
```sh
grep -qxF \"a 'b' \\$c\" hello.txt
test ! -e /etc/cni/net.d
sudo -E touch /etc/of-ours
```
<!-- run: two -->
```
test -e hello.txt
```
";

#[test]
fn a_group_is_run_apart_from_the_machine_and_its_failure_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, PAGE).unwrap();
    let page = page.to_str().unwrap();
    assert_eq!(groups(page), ["one", "two"]);
    let one = documented(&[page, "one"]);
    if one.status.code() == Some(CANNOT) {
        lab::skip(&String::from_utf8_lossy(&one.stderr));
        return;
    }
    assert!(one.status.success(), "{one:?}");
    assert!(!Path::new("/etc/of-ours").exists() && !root().join("hello.txt").exists());
    // What another group has made is not there.
    assert_eq!(documented(&[page, "two"]).status.code(), Some(1));
    assert_eq!(documented(&[page, "three"]).status.code(), Some(2));
}
