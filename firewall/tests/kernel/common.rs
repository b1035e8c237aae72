//! A table of one's own: each test runs again in a child process, in a network and mount namespace
//! of its own, once for each variant of iptables that the machine has.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use firewall::Owner;
use firewall::hostport::{HostPorts, Mapping, Mark, Protocol};
use ipnet::IpNet;

/// Names the variant in the child.
const VARIANT: &str = "FIREWALL_TEST_VARIANT";
/// The folder on the child's PATH with the variant's programs under their plain names.
const TOOLS: &str = "FIREWALL_TEST_TOOLS";

/// Runs `body` for each variant of iptables.
pub fn in_namespace(body: fn()) {
    if std::env::var_os(VARIANT).is_some() {
        return body();
    }
    let variants = ["nft", "legacy"].map(|variant| (variant, with_variant(variant)));
    let failed: Vec<_> = variants.iter().filter(|(_, passed)| !passed).collect();
    assert!(failed.is_empty(), "failed with {failed:?}");
}

/// Runs `body` once, for what needs no iptables.
pub fn in_bare_namespace(body: fn()) {
    if std::env::var_os(VARIANT).is_some() {
        return body();
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(again("none", |command| {
        command
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .env("XTABLES_LOCKFILE", folder.path().join("lock"));
    }));
}

/// The test that is running.
fn test_name() -> String {
    let thread = std::thread::current();
    thread.name().expect("a test thread has a name").to_owned()
}

fn with_variant(variant: &str) -> bool {
    let Some(multi) = lab::find_tool(&format!("iptables-{variant}")) else {
        lab::skip(&format!("iptables-{variant} is not installed"));
        return true;
    };
    if variant == "legacy" && is_ordinary_user() {
        lab::skip("the kernel tells an ordinary user nothing of legacy tables");
        return true;
    }
    let multi = multi.canonicalize().unwrap();
    let tools = tempfile::tempdir().unwrap();
    for program in ["iptables", "ip6tables"] {
        for suffix in ["", "-restore", "-save"] {
            symlink(&multi, tools.path().join(format!("{program}{suffix}"))).unwrap();
        }
    }
    again(variant, |command| {
        command
            .env(TOOLS, tools.path())
            .env("PATH", format!("{}:/usr/bin:/bin", tools.path().display()))
            .env("XTABLES_LOCKFILE", tools.path().join("lock"));
    })
}

fn again(variant: &str, prepare: impl FnOnce(&mut Command)) -> bool {
    let Some(unshare) = unshare() else {
        lab::skip("no network namespace can be made");
        return true;
    };
    let mut command = Command::new(&unshare[0]);
    command
        .args(&unshare[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test_name(), "--nocapture"])
        .env(VARIANT, variant);
    prepare(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    for skipped in errors.lines().filter(|line| line.contains(": skipped: ")) {
        // Not eprintln!, which a passing test keeps to itself.
        let _ = writeln!(std::io::stderr(), "{skipped}");
    }
    // A name that fits no test would pass as well.
    let passed = output.status.success() && said.contains("1 passed");
    if !passed {
        eprintln!("{variant}: {said}{errors}");
    }
    passed
}

/// The command line that makes the namespaces; an ordinary user is root of a user namespace.
fn unshare() -> Option<Vec<String>> {
    let program = lab::find_tool("unshare")?.to_str()?.to_owned();
    ["-nm", "-rnm"].into_iter().find_map(|flags| {
        let line = vec![program.clone(), flags.to_owned()];
        let made = Command::new(&line[0])
            .args(&line[1..])
            .arg("true")
            .stderr(Stdio::null())
            .status();
        made.is_ok_and(|status| status.success()).then_some(line)
    })
}

/// Whether root is only mapped to an ordinary user, or not even that.
pub fn is_ordinary_user() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let rootless = map.split_whitespace().nth(1) != Some("0");
    rootless || !nix::unistd::geteuid().is_root()
}

/// The variant that the child runs with, and the other one.
pub fn variants() -> (&'static str, &'static str) {
    match std::env::var(VARIANT).as_deref() {
        Ok("nft") => ("nft", "legacy"),
        _ => ("legacy", "nft"),
    }
}

/// The folder that comes first on PATH.
pub fn tools() -> PathBuf {
    std::env::var_os(TOOLS).unwrap().into()
}

/// Standard output of a program that must succeed.
pub fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {input}");
    String::from_utf8(output.stdout).unwrap()
}

/// The table `nat` as the program prints it, without remarks.
pub fn save(program: &str) -> Vec<String> {
    run(&format!("{program}-save"), &["-t", "nat"], "")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// The rules of the table `nat` that name one of the words.
pub fn rules_with(program: &str, words: &[&str]) -> Vec<String> {
    save(program)
        .into_iter()
        .filter(|line| words.iter().any(|word| line.contains(word)))
        .collect()
}

/// Puts a table as saved in place of what there is.
pub fn put(program: &str, lines: &[String]) {
    let text = lines.join("\n") + "\n";
    run(&format!("{program}-restore"), &["-w", "5"], &text);
}

/// An attachment by `eth0`.
pub fn owner(container_id: &str) -> Owner<'_> {
    Owner {
        network: "mynet",
        container_id,
        ifname: "eth0",
    }
}

pub fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub fn mapping(host_port: u16, protocol: Protocol, host_ip: &str) -> Mapping {
    Mapping {
        host_port,
        container_port: 80,
        protocol,
        host_ip: host_ip.parse().ok(),
    }
}

/// Ports with every key at its default.
pub fn ports<'a>(mappings: &'a [Mapping], addresses: &'a [IpNet]) -> HostPorts<'a> {
    HostPorts {
        mappings,
        addresses,
        snat: true,
        masq_all: false,
        mark: Mark::Bit(13),
        conditions_v4: &[],
        conditions_v6: &[],
    }
}

/// A program that counts its runs in `count`, and then does `what`.
pub fn script(path: &Path, what: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = std::fs::remove_file(path);
    let count = tools().join("count");
    let text = format!("#!/bin/sh\necho run >> {}\n{what}\n", count.display());
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Counts the runs of all programs of the variant, under their plain names and the variant's own.
pub fn count_runs() {
    let real = tools().join("real");
    std::fs::create_dir(&real).unwrap();
    // The file's name tells the variant.
    let variant = variants().0;
    let counter = tools().join(format!("counted-{variant}"));
    let run = format!("exec {}/${{0##*/}} \"$@\"", real.display());
    script(&counter, &run);
    for program in ["iptables", "ip6tables"] {
        for suffix in ["", "-restore"] {
            let name = format!("{program}{suffix}");
            let file = tools().join(&name).canonicalize().unwrap();
            std::fs::remove_file(tools().join(&name)).unwrap();
            for name in [name, format!("{program}-{variant}{suffix}")] {
                symlink(&file, real.join(&name)).unwrap();
                symlink(&counter, tools().join(&name)).unwrap();
            }
        }
    }
}

/// How often scripts were run.
pub fn runs() -> usize {
    std::fs::read_to_string(tools().join("count")).map_or(0, |text| text.lines().count())
}

/// Puts a program that only fails in place of each, of both variants.
pub fn break_tools() {
    for program in ["iptables", "ip6tables"] {
        for variant in ["", "-nft", "-legacy"] {
            for suffix in ["", "-restore"] {
                let name = format!("{program}{variant}{suffix}");
                script(&tools().join(name), "exit 1");
            }
        }
    }
}

/// Takes all programs away.
pub fn hide_tools() {
    if let Some(tools) = std::env::var_os(TOOLS) {
        std::fs::remove_dir_all(tools).unwrap();
    }
    for folder in ["/usr/sbin", "/sbin"] {
        let (tmpfs, none) = (Some("tmpfs"), None::<&str>);
        nix::mount::mount(tmpfs, folder, tmpfs, nix::mount::MsFlags::empty(), none).unwrap();
    }
}
