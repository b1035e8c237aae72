//! `make install` and `make uninstall`, below a folder of the test's own.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lab::find_tool;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const INSTALLED: &str = ".cni-lite-installed";
const PLUGINS: [&str; 5] = ["bandwidth", "bridge", "host-local", "loopback", "portmap"];

/// Runs a target of the Makefile without building anything; false, said aloud, where that is not
/// possible.
fn make(target: &str, destination: &Path, more: &[&str]) -> bool {
    said_by_make(target, destination, more).is_some()
}

/// As [`make`]; what it says.
fn said_by_make(target: &str, destination: &Path, more: &[&str]) -> Option<String> {
    let built = Path::new(ROOT).join("target/bin");
    let there = |name: &str| built.join(name).is_file();
    let plugins = PLUGINS
        .iter()
        .all(|plugin| there(&format!("{plugin}-lite")));
    if !plugins || !there("podnet") {
        lab::skip("nothing is built in target/bin (make build)");
        return None;
    }
    let Some(make) = find_tool("make") else {
        lab::skip("no make");
        return None;
    };
    let mut make = Command::new(make);
    make.current_dir(ROOT)
        .args(["--old-file=build", target])
        .arg(format!("DESTDIR={}", destination.display()))
        .args(more);
    // Those of a make around this test.
    for name in [
        "MAKEFLAGS",
        "MFLAGS",
        "MAKELEVEL",
        "PREFIX",
        "STANDARD_NAMES",
    ] {
        make.env_remove(name);
    }
    let output = make.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make {target}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What was put into the folder, or is another's.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != INSTALLED)
        .collect();
    names.sort();
    names
}

#[test]
fn with_standard_names_and_away_again() {
    let root = tempfile::tempdir().unwrap();
    let bin = root.path().join("opt/cni/bin");
    for _ in 0..2 {
        if !make("install", root.path(), &["STANDARD_NAMES=1"]) {
            return;
        }
    }
    let mut expected = vec!["podnet".to_owned()];
    for plugin in PLUGINS {
        expected.extend([plugin.to_owned(), format!("{plugin}-lite")]);
        let own = fs::read(bin.join(format!("{plugin}-lite"))).unwrap();
        assert!(fs::read(bin.join(plugin)).unwrap() == own, "{plugin}");
    }
    expected.sort();
    assert_eq!(files(&bin), expected);
    for name in &expected {
        let mode = fs::metadata(bin.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }

    // Another's plugin under a standard name is none of ours.
    fs::write(bin.join("portmap"), "another's").unwrap();
    fs::write(bin.join("ptp"), "another's").unwrap();
    make("uninstall", root.path(), &[]);
    assert_eq!(files(&bin), ["portmap", "ptp"]);
    assert!(!bin.join(INSTALLED).exists());
    make("uninstall", root.path(), &[]);
}

#[test]
fn an_older_copy_under_a_standard_name_is_ours_too() {
    let root = tempfile::tempdir().unwrap();
    let bin = root.path().join("opt/cni/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("bridge"), "another's").unwrap();
    let standard = ["STANDARD_NAMES=1"];
    let Some(said) = said_by_make("install", root.path(), &standard) else {
        return;
    };
    let replaced: Vec<_> = said
        .lines()
        .filter(|line| line.contains("another's"))
        .collect();
    let bridge = bin.join("bridge").display().to_string();
    assert_eq!(replaced, [format!("replaced another's {bridge}")]);
    let said = said_by_make("install", root.path(), &standard).unwrap();
    assert!(!said.contains("another's"), "{said}");

    // The new version differs from the copies under standard names.
    let built = fs::read(bin.join("bridge-lite")).unwrap();
    fs::write(bin.join("bridge-lite"), [&built[..], b"newer"].concat()).unwrap();
    make("uninstall", root.path(), &[]);
    assert_eq!(files(&bin), [""; 0]);
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
fn beside_the_reference_plugins_in_a_folder_of_choice() {
    let root = tempfile::tempdir().unwrap();
    let bin = root.path().join("usr/lib/cni");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("bridge"), "another's").unwrap();
    if !make("install", root.path(), &["PREFIX=/usr/lib/cni"]) {
        return;
    }
    let expected = [
        "bandwidth-lite",
        "bridge",
        "bridge-lite",
        "host-local-lite",
        "loopback-lite",
        "podnet",
        "portmap-lite",
    ];
    assert_eq!(files(&bin), expected);
    make("uninstall", root.path(), &["PREFIX=/usr/lib/cni"]);
    assert_eq!(files(&bin), ["bridge"]);
}
