//! Programs that are watched at every system call.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use lab::trace::{CAN_FAIL, Entry, Next, Process, Traced, supported, trace};
use nix::errno::Errno;
use nix::libc::{SYS_mkdirat, SYS_recvmsg, SYS_sendmsg, SYS_sendto};

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

/// The number of `mkdir` on x86-64; others have `mkdirat` alone.
const OLD_MKDIR: i64 = 83;

/// Whether calls can be made to fail; that they cannot is said aloud and counted.
fn can_fail() -> bool {
    if !CAN_FAIL {
        lab::skip("system calls can be made to fail on x86-64 alone");
    }
    CAN_FAIL && can()
}

fn is(entry: &Entry, numbers: &[i64]) -> bool {
    let number = entry.number().and_then(|number| i64::try_from(number).ok());
    number.is_some_and(|number| numbers.contains(&number))
}

#[test]
fn a_call_that_fails_is_not_made() {
    if !can_fail() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let mut mkdir = Command::new("mkdir");
    let fail = |entry: &Entry| match is(entry, &[OLD_MKDIR, SYS_mkdirat]) {
        true => Next::Fail(Errno::ENOSPC),
        false => Next::Proceed,
    };
    let traced = trace(mkdir.arg(&made), b"", fail).unwrap();
    assert_eq!(traced.faults, 1);
    assert!(!traced.output.status.success() && !made.exists());
    let said = String::from_utf8(traced.output.stderr).unwrap();
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn netlink_refuses_and_interrupts() {
    if !can_fail() || lab::supported().is_err() {
        return;
    }
    let lab = lab::Lab::new("refused").unwrap();
    let node = lab.namespace("node").unwrap();
    let ip = |words: &str, calls: &[i64], fault: Next| {
        let mut ip = Command::new(lab::find_tool("ip").unwrap());
        let ip = ip.args(words.split(' '));
        let at = |entry: &Entry| {
            if is(entry, calls) {
                fault
            } else {
                Next::Proceed
            }
        };
        node.run(|| trace(ip, b"", at)).unwrap().unwrap()
    };
    let sends = [SYS_sendmsg, SYS_sendto];
    let busy = ip(
        "link add b0 type bridge",
        &sends,
        Next::Refuse(Errno::EBUSY),
    );
    assert!(busy.faults > 0 && !busy.output.status.success());
    let said = String::from_utf8(busy.output.stderr).unwrap();
    assert!(said.contains("Device or resource busy"), "{said}");
    assert!(node.netlink().unwrap().link("b0").unwrap().is_none());

    let interrupted = ip("link show", &[SYS_recvmsg], Next::Interrupt);
    assert!(interrupted.faults > 0);
    let said = String::from_utf8(interrupted.output.stderr).unwrap();
    assert!(said.contains("Dump was interrupted"), "{said}");
}
