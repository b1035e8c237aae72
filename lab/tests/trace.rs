//! Programs that are watched at every system call.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use lab::trace::{Next, Process, Traced, supported, trace};

fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn watch(script: &str, input: &[u8]) -> Traced {
    trace(&mut sh(script), input, |_| Next::Proceed).unwrap()
}

/// Whether it can be tried; that it cannot is said aloud and counted.
fn can() -> bool {
    supported().map_err(|reason| lab::skip(&reason)).is_ok()
}

fn names(processes: &[Process]) -> Vec<String> {
    let name = |process: &Process| {
        let name = process.program.file_name().unwrap();
        name.to_string_lossy().into_owned()
    };
    processes.iter().map(name).collect()
}

#[test]
fn its_status_and_what_it_prints_are_its_own() {
    if !can() {
        return;
    }
    let traced = watch("cat; echo err >&2; exit 3", b"in");
    assert_eq!(traced.output.status.code(), Some(3));
    assert_eq!(traced.output.stdout, b"in");
    assert_eq!(traced.output.stderr, b"err\n");
    let much = vec![b'x'; 1 << 20];
    assert_eq!(watch("cat", &much).output.stdout, much);
    let ended = watch("kill -9 $$", b"").output.status;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(9)
    );
}

#[test]
fn every_process_is_counted_once() {
    if !can() {
        return;
    }
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let shell = shell.file_name().unwrap().to_string_lossy();
    let traced = watch("true | cat; /bin/true; (exit 0); exec /bin/echo", b"");
    // `true` of the pipe and the group are the shell's own, in processes of theirs.
    let mut names = names(&traced.processes);
    assert_eq!(names.remove(0), "echo");
    names.sort();
    let mut expected = ["cat", "true", &shell, &shell].map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn system_calls_are_counted_for_each_process() {
    if !can() {
        return;
    }
    let script = "for i in 0 1 2 3 4 5 6 7 8 9; do umask 22; done";
    let none = watch("", b"").processes[0].system_calls;
    let mut umasks = 0;
    let counted = trace(&mut sh(script), b"", |entry| {
        let number = entry.number().and_then(|number| i64::try_from(number).ok());
        umasks += u64::from(number == Some(nix::libc::SYS_umask));
        Next::Proceed
    });
    let ten = counted.unwrap().processes[0].system_calls;
    assert!(none > 3, "{none}");
    // What the shell and its libraries make beside is the same in both.
    assert_eq!(ten, none + umasks);
    assert!(umasks >= 10, "{umasks}");
    let mut total = 0;
    let traced = trace(&mut sh("/bin/true; /bin/true"), b"", |entry| {
        total += 1;
        assert_eq!(entry.nth, total);
        assert!(entry.number().is_some());
        Next::Proceed
    });
    let processes = traced.unwrap().processes;
    let sum: u64 = processes.iter().map(|process| process.system_calls).sum();
    assert_eq!((sum, processes.len()), (total, 3));
}

#[test]
fn memory_is_each_process_s_own() {
    if !can() {
        return;
    }
    let script = "head -c 30000000 /dev/zero | tail -c 29000000 | wc -c; :";
    let traced = watch(script, b"");
    let peak = |name: &str| {
        let process = names(&traced.processes).iter().position(|it| it == name);
        traced.processes[process.unwrap()].peak
    };
    assert!(peak("tail") > 20_000, "{traced:?}");
    assert!(peak("wc") > 100 && peak("wc") < 20_000, "{traced:?}");
    assert!(traced.processes[0].peak < 20_000, "{traced:?}");
}

#[test]
fn one_that_is_killed_does_not_make_the_call() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made");
    let script = format!("umask 22; : > {}", file.display());
    let all = watch(&script, b"").processes[0].system_calls;
    assert!(file.exists());
    for nth in 1..=all {
        std::fs::remove_file(&file).ok();
        let mut seen = 0;
        let kill_at = |entry: &lab::trace::Entry| {
            seen = entry.nth;
            if entry.nth == nth {
                Next::Kill
            } else {
                Next::Proceed
            }
        };
        let traced = trace(&mut sh(&script), b"", kill_at).unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&traced.output.status);
        assert_eq!((signal, seen), (Some(9), nth));
        if nth == 1 {
            assert!(!file.exists());
        }
    }
    assert!(file.exists(), "the last call comes after it");
}
