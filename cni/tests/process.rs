//! A plugin as a process. This program is both sides: with `CNI_COMMAND` (or `BY_HAND`) it is the
//! plugin, without it the test that starts itself as one. So it has a `main` of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test, though without the attribute that would say so"
)]

use std::fs::File;
use std::process::{Command, ExitCode, Output, Stdio};

use cni::{AddResult, Error, Plugin, Request};
use serde_json::Value;

struct Panicking;

impl Plugin for Panicking {
    const NAME: &'static str = "panicking";

    fn add(&self, _: &Request) -> Result<AddResult, Error> {
        panic!("a bug with \"quotes\"");
    }

    fn del(&self, _: &Request) -> Result<(), Error> {
        Ok(())
    }

    fn check(&self, _: &Request) -> Result<(), Error> {
        Ok(())
    }
}

fn main() -> ExitCode {
    if ["CNI_COMMAND", "BY_HAND"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        return cni::run(&Panicking);
    }
    for (name, test) in [
        (
            "a panic is an error object",
            a_panic_is_an_error_object as fn(),
        ),
        ("broken streams", broken_streams),
        ("by hand", by_hand),
    ] {
        println!("test {name}");
        test();
    }
    ExitCode::SUCCESS
}

/// This program as a plugin, with a complete environment.
fn plugin(command: &str) -> Command {
    let mut plugin = Command::new(std::env::current_exe().unwrap());
    plugin
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "c")
        .env("CNI_NETNS", "/nonexistent")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/nonexistent");
    plugin
}

/// A configuration as standard input.
fn config() -> Stdio {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, r#"{"cniVersion": "0.4.0", "name": "n"}"#).unwrap();
    File::open(file).unwrap().into()
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

fn a_panic_is_an_error_object() {
    let output = plugin("ADD").stdin(config()).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status(&output), Some(1));
    assert_eq!(printed["code"], 999);
    assert_eq!(printed["msg"], "the plugin panicked");
    assert!(
        printed["details"]
            .as_str()
            .unwrap()
            .contains("a bug with \"quotes\"")
    );
}

fn broken_streams() {
    // A full disk refuses what is written.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for command in ["ADD", "VERSION"] {
        let output = plugin(command)
            .stdin(config())
            .stdout(full())
            .output()
            .unwrap();
        assert_eq!(status(&output), Some(1), "{command}");
    }
    let output = plugin("DEL")
        .stdin(config())
        .stdout(full())
        .stderr(full())
        .output()
        .unwrap();
    assert_eq!(status(&output), Some(0));

    // A folder cannot be read.
    let output = plugin("DEL")
        .stdin(File::open("/").unwrap())
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (status(&output), &printed["code"]),
        (Some(1), &Value::from(5))
    );
}

fn by_hand() {
    let about = "CNI panicking plugin v0.1.0\nCNI protocol versions supported: 0.1.0, 0.2.0, \
                 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n";
    let own = || {
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.env("BY_HAND", "").env_remove("CNI_COMMAND");
        own
    };
    let output = own().output().unwrap();
    assert_eq!(
        (status(&output), output.stdout.as_slice()),
        (Some(0), &b""[..])
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), about);
    for flag in ["--version", "-V"] {
        let output = own().arg(flag).output().unwrap();
        assert_eq!(
            (status(&output), output.stderr.as_slice()),
            (Some(0), &b""[..])
        );
        assert_eq!(String::from_utf8(output.stdout).unwrap(), about);
    }
}
