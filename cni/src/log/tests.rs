use std::fs;

use serde_json::json;

use super::*;

/// A log to a file of its own, and what a call with that configuration writes there.
fn written(config: Option<&Value>, outcome: &Result<String, Error>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let steps = Steps::begin("read");
    let mut log = Log::begin("fake", file.to_str(), steps.clone());
    if let Some(config) = config {
        log.read(config);
    }
    steps.next("look");
    let variable = |name: &str| {
        let value = match name {
            "CNI_COMMAND" => "ADD",
            "CNI_CONTAINERID" => "c",
            "CNI_ARGS" => "",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let mut stderr = Vec::new();
    log.write(Version::V1_0_0, variable, outcome, &mut stderr);
    assert_eq!(stderr, b"");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The line without what is another at each call.
fn without_times(mut line: Value) -> Value {
    let keys = line.as_object_mut().unwrap();
    let time = keys.shift_remove("time").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let steps = keys.shift_remove("microseconds").unwrap();
    let names: Vec<_> = steps.as_object().unwrap().keys().collect();
    assert_eq!(names, ["read", "look", "all"]);
    assert!(steps.as_object().unwrap().values().all(Value::is_u64));
    assert_eq!(
        keys.shift_remove("version").unwrap(),
        env!("CARGO_PKG_VERSION")
    );
    line
}

#[test]
fn a_line_tells_what_was_asked_and_what_came_back() {
    let config = json!({
        "cniVersion": "1.0.0", "NAME": "n", "type": "fake", "bridge": "cni0", "mtu": 1400,
        "logfile": "/x", "prevResult": { "ips": [] }, "runtimeConfig": { "mac": "m" }
    });
    let line = written(Some(&config), &Ok(r#"{"dns": {}}"#.to_owned()));
    let expected = json!({
        "plugin": "fake", "cniVersion": "1.0.0", "command": "ADD", "network": "n",
        "containerID": "c",
        "asked": { "bridge": "cni0", "mtu": 1400, "runtimeConfig": { "mac": "m" } },
        "exit": 0, "result": { "dns": {} }
    });
    assert_eq!(without_times(line).to_string(), expected.to_string());
}

#[test]
fn what_is_not_there_is_left_out() {
    let line = written(None, &Ok(String::new()));
    let expected = json!({
        "plugin": "fake", "cniVersion": "1.0.0", "command": "ADD", "containerID": "c", "exit": 0
    });
    assert_eq!(without_times(line), expected);
    let error = Error::config("m").details("d");
    let line = written(None, &Err(error.clone()));
    assert_eq!(line["exit"], 1);
    assert_eq!(line["error"], error.to_json(Version::V1_0_0));
}

#[test]
fn a_long_line_is_bounded() {
    let ports: Vec<_> = (0..60_000)
        .map(|port| json!({ "hostPort": port }))
        .collect();
    let config = json!({ "name": "n".repeat(100_000), "runtimeConfig": { "portMappings": ports } });
    let error = Error::config("m".repeat(100_000)).details("d".repeat(100_000));
    let line = written(Some(&config), &Err(error)).to_string();
    assert!(line.len() < 32 * 1024, "{}", line.len());
    assert!(line.contains(" more\""), "{line}");
}

#[test]
fn the_variable_wins_over_the_key() {
    let file = |variable: Option<&str>, config: &Value| {
        let mut log = Log::begin("fake", variable, Steps::begin("read"));
        log.read(config);
        log.file.map(|file| file.to_string_lossy().into_owned())
    };
    let config = json!({ "LogFile": "/key" });
    let expected = |path: &str| Some(path.to_owned());
    assert_eq!(file(Some("/variable"), &config), expected("/variable"));
    for unset in [None, Some("")] {
        assert_eq!(file(unset, &config), expected("/key"));
        for off in [json!({}), json!({ "logFile": "" }), json!({ "logFile": 5 })] {
            assert_eq!(file(unset, &off), None, "{off}");
        }
    }
}

#[test]
fn only_plain_files_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fifo = |name: &str| {
        nix::unistd::mkfifo(&at(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        at(name)
    };
    let alone = fifo("alone");
    let read = fifo("read");
    let _reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&read)
        .unwrap();
    fs::write(at("target"), "").unwrap();
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    for file in [
        alone,
        read,
        at("link"),
        at("missing/log"),
        folder.path().to_owned(),
        "/dev/null".into(),
        "relative".into(),
        "/".repeat(100_000).into(),
    ] {
        let log = Log::begin("fake", file.to_str(), Steps::begin("read"));
        let mut stderr = Vec::new();
        log.write(Version::V1_0_0, |_| None, &Ok(String::new()), &mut stderr);
        let said = String::from_utf8(stderr).unwrap();
        assert!(
            said.starts_with("fake: cannot write the log \"/") || file.is_relative(),
            "{said}"
        );
        assert!(said.lines().count() == 1 && said.len() < 2000, "{said}");
    }
    assert_eq!(fs::read(at("target")).unwrap(), b"");
}
