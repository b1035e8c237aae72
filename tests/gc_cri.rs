//! `podnet gc --from-cri`: what no sandbox of the runtime has goes, and nothing else does.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "gc_cri/crash.rs"]
mod crash;
#[path = "gc_cri/fake.rs"]
mod fake;

use std::fs;
use std::os::unix::net::UnixListener;

use lab::Snapshot;
use serde_json::json;
use tests::{Answer, binary_folder, write_script};
use tonic::Code;

use crash::{Crash, NETWORK};
use fake::{FakeRuntime, Says, sandbox};

/// What is left of sandboxes that the runtime does not have goes: where their namespaces are still
/// there, and where the cache has lost them. Where its file is torn it may be another program's.
fn leaked_ones_go_and_living_ones_stay(label: &str, version: &str) {
    let Some(mut crash) = Crash::new(label, version) else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.add(NETWORK, "ready", "net1");
    crash.add(NETWORK, "stopped", "eth0");
    crash.add(NETWORK, "forgotten", "eth0");
    crash.forget(NETWORK, "forgotten");
    crash.add_with(NETWORK, "by-hand", "eth0", "IgnoreUnknown=1;K8S_POD_NAME=w");
    crash.runtime.say(Says::Sandboxes(vec![
        sandbox("ready", 0),
        sandbox("stopped", 1),
        sandbox("forgotten", 7),
    ]));
    let (living, cached) = (crash.snapshot(), crash.cached());
    crash.add(NETWORK, "leaked", "eth0");
    crash.add(NETWORK, "leaked", "net1");
    crash.add(NETWORK, "lost", "eth0");
    crash.forget(NETWORK, "lost");
    crash.add(NETWORK, "torn", "eth0");
    let torn = crash
        .node
        .cache
        .join(format!("results/{NETWORK}-torn-eth0"));
    fs::write(&torn, "{").unwrap();

    let before = crash.snapshot();
    let shown = crash.gc(&[NETWORK, "--grace", "0", "--dry-run"]);
    let entry = |id: &str, ifname: &str| json!({ "containerID": id, "ifname": ifname });
    assert_eq!(
        shown.ok(),
        &json!({
            "cni.dev/valid-attachments": [
                entry("by-hand", "eth0"), entry("forgotten", "eth0"), entry("ready", "eth0"),
                entry("ready", "net1"), entry("stopped", "eth0"), entry("torn", "eth0")
            ],
            "gone": [
                entry("leaked", "eth0"), entry("leaked", "net1"), entry("lost", "eth0")
            ]
        })
    );
    assert_eq!(crash.snapshot(), before);

    let collected = crash.gc(&[NETWORK, "--grace", "0", "--output", "table"]);
    collected.ok();
    let why = "sandbox of default/pod-stopped, not ready";
    assert!(collected.stdout.contains(why), "{}", collected.stdout);
    let old = collected
        .stderr
        .contains("is of cniVersion 1.0.0, and 1.1.0 brought GC");
    assert_eq!(old, version == "1.0.0", "{}", collected.stderr);
    assert_eq!(
        crash.snapshot().reservations.len(),
        living.reservations.len() + 1
    );
    fs::remove_file(&torn).unwrap();
    crash.gc(&[NETWORK, "--grace", "0"]).ok();
    assert_eq!(crash.snapshot(), living);
    assert_eq!(crash.cached(), cached);
    let checked = crash.podnet(&["check", "--all"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    // There is no more to find.
    let again = crash.gc(&[NETWORK, "--grace", "0"]);
    assert_eq!(again.ok()["gone"], json!([]));
    assert_eq!(crash.snapshot(), living);
}

#[test]
fn leaked_attachments_of_a_network_that_has_gc() {
    leaked_ones_go_and_living_ones_stay("gc-cri", "1.1.0");
}

#[test]
fn leaked_attachments_of_a_network_that_has_none() {
    leaked_ones_go_and_living_ones_stay("gc-cri-old", "1.0.0");
}

/// Rules that neither the cache nor a reservation nor a link names are found by GC alone.
#[test]
fn what_only_rules_name_goes_by_gc() {
    let Some(mut crash) = Crash::new("gc-cri-rules", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot();
    crash.add(NETWORK, "leaked", "eth0");
    crash.forget(NETWORK, "leaked");
    let left = crash.snapshot().since(&living);
    for link in &left.links {
        let name = link.split(' ').next().unwrap();
        crash
            .node
            .namespace
            .read("ip", &["link", "delete", name])
            .unwrap();
    }
    for reservation in &left.reservations {
        let address = reservation.split(' ').next().unwrap();
        fs::remove_file(crash.node.data.join(NETWORK).join(address)).unwrap();
    }
    assert!(!crash.snapshot().since(&living).rules.is_empty());
    let shown = crash.gc(&[NETWORK, "--grace", "0"]);
    assert_eq!(shown.ok()["gone"], json!([]));
    assert_eq!(crash.snapshot(), living);
}

#[test]
fn nothing_goes_where_the_list_cannot_be_had() {
    let Some(mut crash) = Crash::new("gc-cri-odd", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "leaked", "eth0");
    let before = (crash.snapshot(), crash.cached());
    let folder = crash.node.folder().to_owned();
    let expect = |case: &str, answer: &Answer, words: &[&str]| {
        assert_eq!(answer.status, 2, "{case}: {answer:?}");
        assert_eq!(answer.stdout, "", "{case}");
        for word in words {
            assert!(answer.stderr.contains(word), "{case}: {}", answer.stderr);
        }
        assert_eq!((crash.snapshot(), crash.cached()), before, "{case}");
    };
    let unserved = "unknown service runtime.v1.RuntimeService";
    let mut torn = vec![sandbox("ready", 0), sandbox("", 0)];
    torn[1].metadata.as_mut().unwrap().name = "anonymous".to_owned();
    let huge: Vec<_> = (0..40_000)
        .map(|number| sandbox(&format!("{number:0400}"), 0))
        .collect();
    for (case, says, words) in [
        (
            "not ready yet",
            Says::Error(Code::Unknown, "server is not initialized yet"),
            &["ListPodSandbox", "server is not initialized yet"][..],
        ),
        (
            "an older runtime",
            Says::Error(Code::Unimplemented, unserved),
            &["does not serve", "CRI v1", unserved],
        ),
        ("no answer", Says::Nothing, &["no answer", "in 1 s"]),
        (
            "no id",
            Says::Sandboxes(torn),
            &["default/anonymous has no id"],
        ),
        ("too long", Says::Sandboxes(huge), &["ListPodSandbox"]),
        (
            "none",
            Says::Sandboxes(Vec::new()),
            &["has no sandbox", "--none-valid"],
        ),
    ] {
        crash.runtime.say(says);
        let answer = crash.gc(&[NETWORK, "--grace", "0", "--cri-timeout", "1"]);
        expect(case, &answer, words);
    }

    let gc = |socket: &str| {
        let endpoint = format!("unix://{}", folder.join(socket).display());
        let words = ["--grace", "0", "--cri-timeout", "1"];
        crash.podnet(&[&["gc", NETWORK, "--from-cri", &endpoint], &words[..]].concat())
    };
    expect(
        "no socket",
        &gc("none"),
        &["cannot be reached", "No such file", "nothing was removed"],
    );
    drop(UnixListener::bind(folder.join("left")).unwrap());
    expect("nobody listens", &gc("left"), &["Connection refused"]);
    let deaf = UnixListener::bind(folder.join("deaf")).unwrap();
    expect("deaf", &gc("deaf"), &["unix://"]);
    let hangs_up = std::thread::spawn(move || drop(deaf.accept()));
    expect("hangs up", &gc("deaf"), &["unix://"]);
    hangs_up.join().unwrap();
    fs::write(folder.join("file"), "").unwrap();
    expect("no socket but a file", &gc("file"), &["cannot be reached"]);
}

/// Of a cache that was mistyped nobody would be known.
#[test]
fn nothing_goes_where_the_cache_is_not_there() {
    let Some(mut crash) = Crash::new("gc-cri-cache", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "by-hand", "eth0");
    crash.runtime.has(&["ready"]);
    let before = crash.snapshot();
    crash.node.cache = crash.node.cache.join("mistyped");
    let answer = crash.gc(&[NETWORK, "--grace", "0"]);
    assert_eq!(answer.status, 2, "{answer:?}");
    let words = "expected a folder that is there";
    assert!(answer.stderr.contains(words), "{answer:?}");
    assert_eq!(crash.snapshot(), before);
}

/// Of an attachment whose IPAM plugin is another, only a link tells, which says nothing of its age.
#[test]
fn who_is_of_no_known_age_is_spared() {
    let Some(mut crash) = Crash::new("gc-cri-ageless", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot();
    crash.add(NETWORK, "starting", "eth0");
    crash.forget(NETWORK, "starting");
    let reserved = crash.snapshot().since(&living).reservations;
    let address = reserved[0].split(' ').next().unwrap();
    fs::remove_file(crash.node.data.join(NETWORK).join(address)).unwrap();
    let before = crash.snapshot();
    let spared = crash.gc(&[NETWORK, "--grace", "1", "--output", "table"]);
    spared.ok();
    let why = "nothing tells its age";
    assert!(spared.stdout.contains(why), "{}", spared.stdout);
    assert_eq!(crash.snapshot(), before);
    crash.gc(&[NETWORK, "--grace", "0"]).ok();
    assert_eq!(crash.snapshot(), living);
}

#[test]
fn the_sandboxes_of_every_runtime_that_is_asked_live() {
    let Some(mut crash) = Crash::new("gc-cri-two", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    crash.add(NETWORK, "other-s", "eth0");
    let folder = crash.node.folder().join("other");
    fs::create_dir(&folder).unwrap();
    let other = FakeRuntime::new(&folder);
    other.has(&["other-s"]);
    let living = crash.snapshot();
    crash.add(NETWORK, "leaked", "eth0");
    let words = [NETWORK, "--grace", "0", "--from-cri", other.endpoint()];
    crash.gc(&words).ok();
    assert_eq!(crash.snapshot(), living);
}

/// A runtime lists a sandbox only when it runs, long after its network was made.
#[test]
fn who_has_just_come_is_spared() {
    let Some(mut crash) = Crash::new("gc-cri-young", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot();
    crash.add(NETWORK, "cached", "eth0");
    crash.add(NETWORK, "in-flight", "eth0");
    crash.forget(NETWORK, "in-flight");
    let before = crash.snapshot();
    let table = [NETWORK, "--grace", "3600", "--output", "table"];
    let spared = crash.gc(&table);
    spared.ok();
    let why = "its sandbox may not be listed yet";
    assert_eq!(spared.stdout.matches(why).count(), 2, "{}", spared.stdout);
    assert_eq!(crash.snapshot(), before);
    // Nobody can wait for one that is told to be no more.
    crash
        .gc(&[NETWORK, "--grace", "0", "--valid", "cached/eth0"])
        .ok();
    let cached = crash.cached();
    assert_eq!(cached.len(), 2, "{cached:?}");
    crash.gc(&[NETWORK, "--grace", "0"]).ok();
    assert_eq!(crash.snapshot(), living);
}

/// An attachment that comes while the others go is nobody's garbage, though no list has it.
#[test]
fn who_comes_meanwhile_is_spared() {
    let Some(mut crash) = Crash::new("gc-cri-late", "1.1.0") else {
        return;
    };
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot().reservations;
    crash.add(NETWORK, "leaked", "eth0");
    let store = crash.node.data.join(NETWORK);
    let comes = format!(
        r#"#!/bin/sh
[ "$CNI_COMMAND" != DEL ] || printf 'late\r\neth0' >"{}/10.244.0.99"
exec "{}" "$@"
"#,
        store.display(),
        binary_folder()
            .canonicalize()
            .unwrap()
            .join("bandwidth-lite")
            .display()
    );
    let plugin = crash.node.bin.join("bandwidth");
    fs::remove_file(&plugin).unwrap();
    write_script(&plugin, &comes);
    crash.gc(&[NETWORK, "--grace", "0"]).ok();
    let late = "10.244.0.99 late eth0".to_owned();
    let expected: Vec<_> = living.into_iter().chain([late]).collect();
    assert_eq!(crash.snapshot().reservations, expected);
}

/// A crash that took everything, and a runtime that starts anew.
#[test]
fn an_empty_list_is_believed_when_told_so() {
    let Some(mut crash) = Crash::new("gc-cri-none", "1.1.0") else {
        return;
    };
    let empty = crash.snapshot();
    for id in ["a", "b"] {
        crash.add(NETWORK, id, "eth0");
    }
    let shown = crash.gc(&[NETWORK, "--grace", "0", "--dry-run"]);
    assert_eq!(shown.ok()["gone"].as_array().unwrap().len(), 2);
    crash.gc(&[NETWORK, "--grace", "0", "--none-valid"]).ok();
    assert_eq!(crash.snapshot(), empty);
    assert_eq!(crash.cached(), [""; 0]);
}

#[test]
fn all_networks_those_that_only_the_cache_knows_as_well() {
    let Some(mut crash) = Crash::new("gc-cri-all", "1.0.0") else {
        return;
    };
    crash.configure("second", 1, "1.1.0");
    crash.configure("unconfigured", 2, "1.0.0");
    crash.configure("left-alone", 3, "1.1.0");
    let networks = [NETWORK, "second", "unconfigured", "left-alone"];
    for network in networks {
        crash.add(network, "living", "eth0");
    }
    crash.runtime.has(&["living"]);
    let living = networks.map(|network| crash.node.snapshot(network));
    let cached = crash.cached();
    for network in &networks[..3] {
        crash.add(network, "leaked", "eth0");
    }
    let folder = crash.node.folder().join("net.d");
    fs::remove_file(folder.join("unconfigured.conflist")).unwrap();
    let file = folder.join("left-alone.conflist");
    let list = fs::read_to_string(&file).unwrap();
    let list = list.replacen('{', r#"{"disableGC": true, "#, 1);
    fs::write(&file, list).unwrap();

    let collected = crash.gc(&["--all", "--grace", "0"]);
    let shown = collected.ok().as_object().unwrap();
    let names: Vec<_> = shown.keys().map(String::as_str).collect();
    assert_eq!(names, [NETWORK, "second", "unconfigured"]);
    for (name, known) in shown {
        assert_eq!(known["gone"][0]["containerID"], "leaked", "{name}");
    }
    let left_alone = r#"network "left-alone" says "disableGC": true, and is left alone"#;
    assert!(
        collected.stderr.contains(left_alone),
        "{}",
        collected.stderr
    );
    assert_eq!(networks.map(|network| crash.node.snapshot(network)), living);
    assert_eq!(crash.cached(), cached);
}

/// What cannot be read of one network keeps nobody from the others, and nothing of it goes: neither of
/// a torn configuration's network, nor of one that may be it.
#[test]
fn what_cannot_be_read_is_left_alone_and_said() {
    let Some(mut crash) = Crash::new("gc-cri-torn", "1.1.0") else {
        return;
    };
    crash.configure("second", 1, "1.1.0");
    crash.configure("unconfigured", 2, "1.1.0");
    let networks = [NETWORK, "second", "unconfigured"];
    crash.add(NETWORK, "living", "eth0");
    crash.runtime.has(&["living"]);
    // Reservations, and rules by their comments.
    let of = |crash: &Crash, network: &str| {
        let Snapshot {
            mut rules,
            reservations,
            ..
        } = crash.node.snapshot(network);
        rules.retain(|rule| rule.contains(network));
        [rules, reservations]
    };
    let living = of(&crash, NETWORK);
    for network in networks {
        crash.add(network, "leaked", "eth0");
    }
    let others = |crash: &Crash| ["second", "unconfigured"].map(|name| of(crash, name));
    let before = others(&crash);
    let folder = crash.node.folder().join("net.d");
    fs::remove_file(folder.join("unconfigured.conflist")).unwrap();
    let second = folder.join("second.conflist");
    let list = fs::read(&second).unwrap();
    fs::write(&second, "{").unwrap();
    let expect = |answer: &Answer, words: &[&str]| {
        assert_eq!(answer.status, 1, "{answer:?}");
        for word in words {
            assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
        }
    };
    let said = [
        "second.conflist: ",
        r#"network "second" may be that of a configuration that cannot be read, and is left alone"#,
        r#"network "unconfigured" may be"#,
    ];
    let words = ["--all", "--grace", "0", "--output", "json"];
    let shown = crash.gc(&[&words[..], &["--dry-run"]].concat());
    expect(&shown, &said);
    let entry = |id: &str| json!([{ "containerID": id, "ifname": "eth0" }]);
    let whole = json!({ "cni.dev/valid-attachments": entry("living"), "gone": entry("leaked") });
    assert_eq!(shown.json, json!({ NETWORK: whole }));
    expect(&crash.gc(&words), &said);
    assert_eq!(of(&crash, NETWORK), living);
    assert_eq!(others(&crash), before);

    // Neither can that be told of which a reservation is not readable. No network but the first has
    // the sandbox.
    fs::write(&second, list).unwrap();
    let odd = crash.node.data.join("second/10.244.1.99");
    fs::create_dir(&odd).unwrap();
    let collected = crash.gc(&words);
    expect(&collected, &["reservations in "]);
    let unconfigured = json!({ "cni.dev/valid-attachments": [], "gone": entry("leaked") });
    assert_eq!(collected.json["unconfigured"], unconfigured);
    assert_eq!(collected.json.get("second"), None);
    fs::remove_dir(&odd).unwrap();
    assert_eq!(of(&crash, "second"), before[0]);
    assert_eq!(crash.cached().len(), 2, "{:?}", crash.cached());
}
