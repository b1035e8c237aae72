use std::cell::RefCell;

use serde_json::Value;

use super::*;

/// A plugin that gives one address, and notes what it is asked.
#[derive(Default)]
struct Fake {
    calls: RefCell<Vec<&'static str>>,
    result: AddResult,
    fails: bool,
}

impl Fake {
    fn note(&self, call: &'static str) -> Result<(), Error> {
        self.calls.borrow_mut().push(call);
        if self.fails {
            return Err(Error::new(11, "busy").details("held"));
        }
        Ok(())
    }
}

impl Plugin for Fake {
    const NAME: &'static str = "fake";
    const VERSIONS: &'static [Version] = &[
        Version::V0_2_0,
        Version::V0_3_1,
        Version::V0_4_0,
        Version::V1_0_0,
        Version::V1_1_0,
    ];

    fn add(&self, _: &Request) -> Result<AddResult, Error> {
        self.note("add").map(|()| self.result.clone())
    }

    fn del(&self, _: &Request) -> Result<(), Error> {
        self.note("del")
    }

    fn check(&self, _: &Request) -> Result<(), Error> {
        self.note("check")
    }

    fn gc(&self, _: &Request) -> Result<(), Error> {
        self.note("gc")
    }

    fn status(&self, _: &Request) -> Result<(), Error> {
        self.note("status")
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    succeeded: bool,
    stdout: String,
    stderr: String,
}

/// Calls `plugin` with a complete environment.
fn call(plugin: &Fake, command: &str, stdin: impl Read) -> Outcome {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let lookup = |name: &str| match name {
        "CNI_COMMAND" => Some(command.to_owned()),
        "CNI_IFNAME" => Some("eth0".to_owned()),
        "CNI_LITE_LOG" => None,
        _ => Some("x".to_owned()),
    };
    let succeeded = serve(plugin, lookup, stdin, &mut stdout, &mut stderr);
    Outcome {
        succeeded,
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

fn conf(version: &str) -> String {
    format!(r#"{{"cniVersion": "{version}", "name": "n"}}"#)
}

fn silent_success() -> Outcome {
    Outcome {
        succeeded: true,
        stdout: String::new(),
        stderr: String::new(),
    }
}

/// An input that must not be read.
struct Unread;

impl Read for Unread {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("was read"))
    }
}

#[test]
fn add_prints_its_result_and_no_more() {
    let outcome = call(&Fake::default(), "ADD", conf("1.0.0").as_bytes());
    let stdout = "{\n    \"cniVersion\": \"1.0.0\",\n    \"dns\": {}\n}".to_owned();
    assert_eq!(
        outcome,
        Outcome {
            stdout,
            ..silent_success()
        }
    );
}

#[test]
fn the_other_verbs_print_nothing() {
    for (command, noted) in [
        ("DEL", "del"),
        ("CHECK", "check"),
        ("GC", "gc"),
        ("STATUS", "status"),
    ] {
        let plugin = Fake::default();
        let outcome = call(&plugin, command, conf("1.1.0").as_bytes());
        assert_eq!(outcome, silent_success());
        assert_eq!(*plugin.calls.borrow(), [noted]);
    }
}

#[test]
fn errors_are_printed_in_the_version_of_the_configuration() {
    let plugin = Fake {
        fails: true,
        ..Fake::default()
    };
    let outcome = call(&plugin, "DEL", conf("0.4.0").as_bytes());
    let stdout = "{\n    \"cniVersion\": \"0.4.0\",\n    \"code\": 11,\n    \"msg\": \"busy\",\n    \
                  \"details\": \"held\"\n}";
    assert_eq!(
        (outcome.succeeded, outcome.stdout.as_str()),
        (false, stdout)
    );
}

#[test]
fn refusals_before_the_verb() {
    for (command, stdin, version, code, msg) in [
        ("FOO", conf("1.0.0"), "1.0.0", 4, "unknown CNI_COMMAND: FOO"),
        (
            "FOO",
            String::new(),
            "1.1.0",
            6,
            "error unmarshall network config: unexpected end of JSON input",
        ),
        ("FOO", "{}".to_owned(), "0.1.0", 7, "missing network name"),
        (
            "ADD",
            conf("0.1.0"),
            "0.1.0",
            1,
            "incompatible CNI versions",
        ),
        (
            "DEL",
            conf("9.9.9"),
            "1.1.0",
            1,
            "incompatible CNI versions",
        ),
        (
            "CHECK",
            conf("0.3.1"),
            "0.3.1",
            1,
            "config version does not allow CHECK",
        ),
        (
            "GC",
            conf("1.0.0"),
            "1.0.0",
            1,
            "config version does not allow GC",
        ),
        (
            "ADD",
            r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {"type": []}}"#.to_owned(),
            "1.0.0",
            6,
            "failed to load netconf: cannot read \"ipam.type\": \
             invalid type: sequence, expected a string",
        ),
    ] {
        let plugin = Fake::default();
        let outcome = call(&plugin, command, stdin.as_bytes());
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(!outcome.succeeded);
        assert_eq!(printed["code"], code, "{stdin}");
        assert_eq!(printed["msg"], msg);
        assert_eq!(printed["cniVersion"], version);
        assert!(plugin.calls.borrow().is_empty());
    }
}

#[test]
fn del_does_not_mind_common_keys_of_the_wrong_type() {
    let stdin = r#"{"cniVersion": "1.0.0", "name": "n", "ipam": 5, "dns": 5}"#;
    assert_eq!(
        call(&Fake::default(), "DEL", stdin.as_bytes()),
        silent_success()
    );
}

#[test]
fn version_and_about_read_nothing() {
    let outcome = call(&Fake::default(), "VERSION", Unread);
    let expected =
        r#"{"cniVersion":"1.1.0","supportedVersions":["0.2.0","0.3.1","0.4.0","1.0.0","1.1.0"]}"#;
    assert_eq!(outcome.stdout, format!("{expected}\n"));
    let outcome = call(&Fake::default(), "", Unread);
    let expected = format!(
        "CNI fake plugin v{}\nCNI protocol versions supported: 0.2.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(
        outcome,
        Outcome {
            stderr: expected,
            ..silent_success()
        }
    );
}

#[test]
fn an_unreadable_or_endless_input() {
    let code = |outcome: Outcome| {
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        (
            printed["code"].as_u64().unwrap(),
            printed["msg"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(
        code(call(&Fake::default(), "ADD", Unread)),
        (5, "error reading from stdin: was read".to_owned())
    );
    assert_eq!(
        code(call(&Fake::default(), "ADD", io::repeat(b' '))),
        (
            6,
            "the network config on stdin is larger than 16777216 bytes".to_owned()
        )
    );
}

#[test]
fn an_add_whose_result_cannot_be_said_is_undone() {
    let plugin = Fake::default();
    let outcome = call(&plugin, "ADD", conf("0.2.0").as_bytes());
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(printed["msg"], "cannot convert: no valid IP addresses");
    assert_eq!(*plugin.calls.borrow(), ["add", "del"]);
}

/// A stream whose reader has gone.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_add_whose_result_nobody_reads_is_undone() {
    for (command, calls) in [("ADD", vec!["add", "del"]), ("VERSION", vec![])] {
        let plugin = Fake::default();
        let lookup = |name: &str| match name {
            "CNI_COMMAND" => Some(command.to_owned()),
            "CNI_LITE_LOG" => None,
            _ => Some("eth0".to_owned()),
        };
        let conf = conf("1.0.0");
        assert!(!serve(
            &plugin,
            lookup,
            conf.as_bytes(),
            &mut Broken,
            &mut Broken
        ));
        assert_eq!(*plugin.calls.borrow(), calls);
    }
    assert!(serve(
        &Fake::default(),
        |_| None,
        Unread,
        &mut Broken,
        &mut Broken
    ));
}
