//! `podnet plan write` into a folder that earlier runs have left, whole or not.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::{Desk, binary_folder};

const THREE: &str = "\
podSubnet: 10.244.0.0/16
nodes:
- {name: a, address: 192.168.10.1}
- {name: b, address: 192.168.10.2}
- {name: c, address: 192.168.10.3}
";

const WRITE: &str = "plan write -f cluster.yaml --out net";

fn read(desk: &Desk, file: &str) -> String {
    fs::read_to_string(desk.path().join("net").join(file)).unwrap()
}

#[test]
fn a_run_that_is_killed_loses_no_range() {
    // Each round adds a node that comes before all others: to give the ranges anew would move them.
    let cluster = |first: usize| {
        let node = |number: usize| format!("- {{name: n{number}, address: 192.168.9.{number}}}\n");
        let nodes: String = (first..100).map(node).collect();
        format!("podSubnet: 10.244.0.0/16\nnodes:\n{nodes}")
    };
    let desk = Desk::new(&cluster(99));
    desk.says(WRITE);
    let podnet = binary_folder().canonicalize().unwrap().join("podnet");
    for round in 1..40 {
        let known = read(&desk, "podcidrs.txt");
        fs::write(desk.path().join("cluster.yaml"), cluster(99 - round)).unwrap();
        let mut run = Command::new(&podnet)
            .args(WRITE.split_whitespace())
            .current_dir(desk.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(round as u64 % 20 * 2));
        run.kill().unwrap();
        run.wait().unwrap();
        let left = read(&desk, "podcidrs.txt");
        for line in known.lines() {
            assert!(left.lines().any(|one| one == line), "{line}: {left}");
        }
    }
    desk.says(WRITE);
    let after = read(&desk, "podcidrs.txt");
    assert_eq!(after.lines().last(), Some("n99 10.244.0.0/24"));
    assert_eq!(after.lines().count(), 40);
}

#[test]
fn lost_ranges_are_not_given_anew() {
    for state in ["empty", "missing"] {
        let desk = Desk::new(THREE);
        desk.says(&format!("{WRITE} --node 0a=192.168.10.9"));
        let before = read(&desk, "podcidrs.txt");
        let file = desk.path().join("net/podcidrs.txt");
        match state {
            "empty" => fs::write(&file, "").unwrap(),
            _ => fs::remove_file(&file).unwrap(),
        }
        let said = format!("net/podcidrs.txt: {state}, but net/cluster.json is there");
        desk.refuses(WRITE, &said);
        // As the error says.
        let ranges = desk.says("plan podcidrs -f net/cluster.json");
        fs::write(&file, ranges).unwrap();
        desk.says(&format!("{WRITE} --node 0a=192.168.10.9"));
        assert_eq!(read(&desk, "podcidrs.txt"), before);

        fs::remove_file(&file).unwrap();
        fs::remove_file(desk.path().join("net/cluster.json")).unwrap();
        desk.refuses(WRITE, "net/podcidrs.txt: missing, but net/nodes is there");
    }
    // Without a node there was no range to lose.
    let desk = Desk::new("podSubnet: 10.244.0.0/16\n");
    desk.says(WRITE);
    desk.says(&format!("{WRITE} --node a=192.168.10.1"));
}

#[test]
fn what_is_no_list_of_ranges_stays_and_is_named() {
    let desk = Desk::new(THREE);
    desk.says(WRITE);
    fs::write(desk.path().join("net/podcidrs.txt"), "garbage here\0").unwrap();
    let said = "net/podcidrs.txt:1: \"here\\0\" is no range";
    desk.refuses(WRITE, said);
    assert_eq!(read(&desk, "podcidrs.txt"), "garbage here\0");
}

#[test]
fn what_is_as_it_is_to_be_is_left_alone() {
    let desk = Desk::new(THREE);
    desk.says(WRITE);
    let number = |file: &str| {
        fs::metadata(desk.path().join("net").join(file))
            .unwrap()
            .ino()
    };
    let files = [
        "podcidrs.txt",
        "nodes/b/routes.sh",
        "nodes/b/10-k8nd-pod-network.conflist",
    ];
    let before = files.map(number);
    assert_eq!(desk.says(WRITE), "out=net\nnodes=3\nfiles=15\n");
    assert_eq!(files.map(number), before);
    desk.says(&format!("{WRITE} --node d=192.168.10.4"));
    let after = files.map(number);
    assert_ne!(after[..2], before[..2]);
    assert_eq!(after[2], before[2]);
}

#[test]
fn a_node_that_is_no_more_is_named_while_its_folder_is_there() {
    let desk = Desk::new(THREE);
    desk.says(WRITE);
    let less = THREE.replace("- {name: b, address: 192.168.10.2}\n", "");
    fs::write(desk.path().join("cluster.yaml"), &less).unwrap();
    let free = "podnet: node b is no more: its range is free, net/nodes/b can be removed\n";
    for _ in 0..2 {
        let answer = desk.run(WRITE);
        assert_eq!((answer.status, answer.stderr.as_str()), (0, free));
    }
    let heir = format!("{WRITE} --node aa=192.168.10.4");
    let taken = "podnet: node b is no more, and its range 10.244.1.0/24 is aa's now: net/nodes/b still \
                 gives it to b, and must be removed\n";
    for _ in 0..2 {
        let answer = desk.run(&heir);
        assert_eq!((answer.status, answer.stderr.as_str()), (0, taken));
    }
    fs::remove_dir_all(desk.path().join("net/nodes/b")).unwrap();
    desk.says(&heir);
}

#[test]
fn what_cannot_be_written_is_no_finding_and_leaves_no_empty_file() {
    let desk = Desk::new(THREE);
    fs::create_dir_all(desk.path().join("net/report.md/inside")).unwrap();
    desk.refuses(WRITE, "cannot write net/report.md: ");
    for entry in fs::read_dir(desk.path().join("net")).unwrap() {
        let entry = entry.unwrap();
        let size = entry.metadata().unwrap().len();
        assert!(size > 0, "{entry:?}");
        assert!(
            !entry.file_name().to_string_lossy().starts_with('.'),
            "{entry:?}"
        );
    }
}

#[test]
fn what_has_no_end_is_not_waited_for() {
    let desk = Desk::new(THREE);
    let fifo = |name: &str| {
        let made = Command::new("mkfifo").arg(desk.path().join(name)).status();
        assert!(made.unwrap().success());
    };
    fs::create_dir(desk.path().join("net")).unwrap();
    fifo("net/podcidrs.txt");
    desk.refuses(WRITE, "cannot read net/podcidrs.txt: it is no regular file");
    fifo("pipe");
    for file in ["pipe", "/dev/zero"] {
        let said = format!("cannot read {file}: it is no regular file");
        desk.refuses(&format!("plan podcidrs -f {file}"), &said);
        desk.refuses(&format!("plan podcidrs --nodes {file}"), &said);
        desk.refuses(&format!("taints -f {file}"), &said);
        desk.refuses(&format!("lint --offline -f {file}"), &said);
        desk.refuses(&format!("lint --offline {file}"), &said);
    }
    // As a shell's `<(command)` is.
    let answer = desk.run_with("plan podcidrs -f /dev/stdin", THREE);
    assert_eq!(answer.stdout.lines().next(), Some("a 10.244.0.0/24"));
}

#[test]
fn a_script_ends_at_the_first_command_that_fails() {
    let desk = Desk::new(THREE);
    desk.says(&format!(
        "{WRITE} --format iproute2,networkmanager --device eth0"
    ));
    let bin = desk.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let run = |script: &str, programs: &[(&str, &str)]| {
        for (name, text) in programs {
            tests::write_script(&bin.join(name), text);
        }
        let output = Command::new("/bin/sh")
            .arg(desk.path().join("net").join(script))
            .env("PATH", &bin)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), said.lines().count())
    };
    let (fails, works) = ("#!/bin/sh\necho $*; exit 1", "#!/bin/sh\necho $*");
    for (script, program, commands) in [
        ("nodes/a/routes.sh", "ip", 2),
        ("patch-nodes.sh", "kubectl", 3),
        ("gcloud-routes.sh", "gcloud", 3),
    ] {
        assert_eq!(run(script, &[(program, fails)]), (false, 1), "{script}");
        assert_eq!(
            run(script, &[(program, works)]),
            (true, commands),
            "{script}"
        );
    }
    // A link that NetworkManager has no connection for.
    let nmcli =
        |connection: &str| format!("#!/bin/sh\n[ \"$1\" = -g ] && echo {connection} || echo $*");
    let script = "nodes/a/pod-routes-nmcli.sh";
    assert_eq!(run(script, &[("nmcli", &nmcli(""))]), (false, 0));
    assert_eq!(run(script, &[("nmcli", &nmcli("wired"))]), (true, 3));
}
