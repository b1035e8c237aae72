//! Whatever a plugin is given, it answers: no panic, no signal, no hanging, and an error is one that
//! a runtime can read.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "hostile/disks.rs"]
mod disks;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use tests::{Answer, Mutator, Node, Pod, can_filter_vlans, kind, seal, with};

const COMMANDS: [&str; 8] = [
    "ADD", "ADD", "DEL", "CHECK", "CHECK", "GC", "STATUS", "VERSION",
];
/// Two at once, each on a node of its own.
const SEEDS: [u64; 2] = [1, 2];
/// Calls of each plugin with each seed.
const RUNS: usize = 1_500;

/// One call.
struct Call<'a> {
    plugin: &'a str,
    variables: Vec<(&'static str, OsString)>,
    config: Vec<u8>,
}

#[test]
fn no_input_makes_bridge_panic() {
    storm("bridge");
}

#[test]
fn no_input_makes_portmap_panic() {
    storm("portmap");
}

#[test]
fn no_input_makes_bandwidth_panic() {
    storm("bandwidth");
}

#[test]
fn no_input_makes_loopback_panic() {
    storm("loopback");
}

#[test]
fn no_input_makes_host_local_panic() {
    storm("host-local");
}

#[test]
fn a_fault_is_one() {
    let answer = |status, stdout: &str, stderr: &str| Answer {
        status,
        stdout: stdout.to_owned(),
        json: serde_json::from_str(stdout).unwrap_or_default(),
        stderr: stderr.to_owned(),
    };
    let error = |code| json!({ "cniVersion": "1.0.0", "code": code, "msg": "m" }).to_string();
    for (command, good) in [
        ("ADD", answer(0, r#"{"cniVersion": "1.0.0"}"#, "")),
        ("ADD", answer(1, &error(7), "a warning")),
        ("DEL", answer(0, "", "")),
        ("VERSION", answer(0, r#"{"supportedVersions": []}"#, "")),
    ] {
        assert_eq!(fault(&good, command), None, "{good:?}");
    }
    for (command, bad) in [
        ("ADD", answer(-1, "", "")),
        ("ADD", answer(101, "", "")),
        ("ADD", answer(0, "", "")),
        ("ADD", answer(1, &error(999), "")),
        ("ADD", answer(1, &error(0), "")),
        ("ADD", answer(1, r#"{"code": 7, "msg": "m"}"#, "")),
        ("DEL", answer(1, "", "")),
        ("DEL", answer(0, "{}", "")),
        ("DEL", answer(0, "", "thread 'main' panicked at")),
    ] {
        assert!(fault(&bad, command).is_some(), "{bad:?}");
    }
}

/// Calls a plugin with what becomes of good configurations and environments.
fn storm(plugin: &str) {
    let nodes: Option<Vec<_>> = SEEDS.iter().map(|_| Node::new("hostile")).collect();
    let Some(nodes) = nodes else { return };
    // In threads, since a sealed one could not remove its node any more.
    let sealed: io::Result<()> = thread::scope(|scope| {
        let start = |(node, seed)| scope.spawn(move || rain(plugin, node, seed));
        let rains: Vec<_> = nodes.iter().zip(SEEDS).map(start).collect();
        rains.into_iter().try_for_each(|rain| rain.join().unwrap())
    });
    let calls = SEEDS.len() * RUNS;
    match sealed {
        // Not println!, which a passing test keeps to itself.
        Ok(()) => drop(writeln!(io::stderr(), "{plugin}: {calls} hostile calls")),
        Err(error) => lab::skip(&format!("no read-only mounts for hostile calls: {error}")),
    }
}

fn rain(plugin: &str, node: &Node, seed: u64) -> io::Result<()> {
    let pod = &node.pod("pod");
    seal(node.folder())?;
    // Two of them need a pod that is connected.
    let chained = ["portmap", "bandwidth"].contains(&plugin);
    let previous = if chained {
        let bridge = &good_configs("bridge", node)[0];
        node.call("bridge", "ADD", pod, bridge, &[]).ok().clone()
    } else {
        Value::Null
    };
    let complete = |config: &Value| proved(&with(config, "prevResult", &previous), node, pod);
    let good: Vec<_> = good_configs(plugin, node).iter().map(complete).collect();
    let mut mutator = Mutator::new(seed);
    for run in 0..RUNS {
        let config = mutator.pick(&good);
        if mutator.once_in(6) {
            tidy(plugin, node, pod, config);
            if mutator.once_in(2) {
                node.call(plugin, "ADD", pod, config, &[]).ok();
            }
        }
        let call = Call {
            plugin,
            variables: environment(&mut mutator, node, pod),
            config: mutator.config(config),
        };
        if let Err(fault) = call.verdict(node) {
            panic!("{plugin}, seed {seed}, run {run}: {fault}\n{call}");
        }
    }
    Ok(())
}

/// So that not all ADDs are stopped by what an earlier one made, under whatever name.
fn tidy(plugin: &str, node: &Node, pod: &Pod, config: &Value) {
    node.call(plugin, "DEL", pod, config, &[]).ok();
    if ["bridge", "host-local"].contains(&plugin) {
        drop(fs::remove_dir_all(&node.data));
        let inside = pod.namespace.netlink().unwrap();
        for link in inside.links().unwrap() {
            if link.name != "lo" {
                inside.delete_link(link.index).unwrap();
            }
        }
    }
}

/// The configuration with the result of its ADD: one of which every verb approves.
fn proved(config: &Value, node: &Node, pod: &Pod) -> Value {
    let plugin = kind(config);
    let result = node.call(plugin, "ADD", pod, config, &[]).ok().clone();
    let proved = if plugin == "host-local" {
        config.clone()
    } else {
        with(config, "prevResult", &result)
    };
    if proved["cniVersion"] != "0.2.0" {
        node.call(plugin, "CHECK", pod, &proved, &[]).ok();
    }
    node.call(plugin, "DEL", pod, &proved, &[]).ok();
    proved
}

/// The variables of a call, mostly good.
fn environment(mutator: &mut Mutator, node: &Node, pod: &Pod) -> Vec<(&'static str, OsString)> {
    let args = "IgnoreUnknown=1;K8S_POD_NAME=w2;MAC=02:11:22:33:44:66;IP=10.244.0.99";
    let mut variables = vec![
        ("CNI_COMMAND", OsString::from(mutator.pick(&COMMANDS))),
        ("CNI_CONTAINERID", pod.id.clone().into()),
        ("CNI_NETNS", pod.namespace.path().into()),
        ("CNI_IFNAME", pod.ifname.clone().into()),
        ("CNI_PATH", node.bin.clone().into()),
        (
            "CNI_ARGS",
            if mutator.once_in(4) {
                args.into()
            } else {
                OsString::new()
            },
        ),
    ];
    while mutator.once_in(3) {
        let at = *mutator.pick(&[0, 1, 2, 3, 4, 5]);
        let (name, value) = &mut variables[at];
        *value = match *name {
            // A path nearly right may be another test's.
            "CNI_NETNS" => mutator.pick(&NAMESPACES).into(),
            _ => mutator.variable(&value.to_string_lossy()),
        };
        if mutator.once_in(10) {
            variables.remove(at);
            break;
        }
    }
    variables
}

const NAMESPACES: [&str; 9] = [
    "",
    " ",
    "/",
    "/run/netns",
    "/run/netns/of-nobody",
    "/dev/null",
    "/proc/self/ns/net",
    "/proc/self/ns/uts",
    "relative",
];

impl Call<'_> {
    /// Makes the call.
    ///
    /// # Errors
    /// What is wrong with the answer.
    fn verdict(&self, node: &Node) -> Result<(), String> {
        let mut process = Command::new(node.bin.join(self.plugin));
        process
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XTABLES_LOCKFILE", node.folder().join("xtables.lock"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = node.namespace.output(&mut process, &self.config);
        let output = output.map_err(|error| error.to_string())?;
        let answer = Answer::from(output);
        let fault = fault(&answer, self.command());
        fault.map_or(Ok(()), |fault| Err(format!("{fault}: {answer:?}")))
    }

    fn command(&self) -> &str {
        let found = self
            .variables
            .iter()
            .find(|(name, _)| *name == "CNI_COMMAND");
        found.and_then(|(_, value)| value.to_str()).unwrap_or("?")
    }
}

/// To be read, and to be tried again; seed and run make exactly the same.
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 1000;
        for (name, value) in &self.variables {
            writeln!(f, "{name}={:.LONGEST$}", format!("{value:?}"))?;
        }
        let config = String::from_utf8_lossy(&self.config);
        let length = self.config.len();
        write!(
            f,
            "{}, {length} bytes on stdin: {config:.LONGEST$}",
            self.plugin
        )
    }
}

/// What is wrong with an answer, if anything.
fn fault(answer: &Answer, command: &str) -> Option<&'static str> {
    let text = |key: &str| answer.json[key].as_str().unwrap_or_default();
    if answer.stderr.contains("panicked") || answer.json["code"] == 999 {
        return Some("a panic");
    }
    match (answer.status, command) {
        (1, _) => {
            let code = answer.json["code"].as_u64().unwrap_or_default();
            let readable = code > 0 && !text("msg").is_empty() && !text("cniVersion").is_empty();
            (!readable).then_some("not an error object")
        }
        (0, "ADD") => text("cniVersion").is_empty().then_some("not a result"),
        (0, "VERSION") => answer.json["supportedVersions"]
            .is_null()
            .then_some("no versions"),
        (0, _) => (!answer.stdout.is_empty()).then_some("a success that says something"),
        _ => Some("a signal, or a status that is not ours"),
    }
}

/// Configurations in which every key is somewhere.
fn good_configs(plugin: &str, node: &Node) -> Vec<Value> {
    let (vlan, trunk) = match can_filter_vlans() {
        true => (100, json!([{ "minID": 5, "maxID": 9 }, { "id": 7 }])),
        false => (0, json!(null)),
    };
    let configs = match plugin {
        "bridge" => vec![
            json!({
                "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "vlan": vlan, "vlanTrunk": trunk, "preserveDefaultVlan": true,
                "forceAddress": true, "mtu": 1400, "ipam": ipam(node),
                "dns": { "nameservers": ["10.96.0.10"] },
                "args": { "cni": { "mac": "02:11:22:33:44:55", "ips": ["10.244.0.9"] } },
                "runtimeConfig": { "mac": "02:11:22:33:44:66" }
            }),
            json!({
                "cniVersion": "0.2.0", "isDefaultGateway": true, "forceAddress": true,
                "ipam": { "type": "host-local", "subnet": "10.244.0.0/24", "dataDir": node.data }
            }),
            json!({ "promiscMode": true, "portIsolation": true, "enabledad": true }),
        ],
        "portmap" => vec![json!({
            "backend": "iptables", "snat": true, "masqAll": false, "markMasqBit": 13,
            "conditionsV4": ["!", "-s", "192.0.2.0/24"],
            "conditionsV6": ["!", "-s", "2001:db8::/32"],
            "runtimeConfig": { "portMappings": [
                { "hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "" },
                { "hostPort": 8053, "containerPort": 53, "protocol": "udp", "hostIP": "192.0.2.10" },
                { "HostPort": 8081, "ContainerPort": 81, "Protocol": "sctp", "HostIP": "::" }
            ] }
        })],
        "bandwidth" => vec![
            json!({
                "ingressRate": 1_000_000, "ingressBurst": 800_000,
                "egressRate": 2_000_000, "egressBurst": 1_600_000
            }),
            json!({ "runtimeConfig": { "bandwidth": {
                "IngressRate": 1_000_000, "IngressBurst": 4_294_967_295_u64
            } } }),
        ],
        "loopback" => vec![
            json!({}),
            json!({ "dns": { "nameservers": ["10.96.0.10"] } }),
        ],
        _ => vec![
            json!({ "ipam": ipam(node), "args": { "cni": { "ips": ["10.244.0.9"] } } }),
            json!({ "ipam": ipam(node), "runtimeConfig": {
                "ips": ["10.245.0.10/24"], "ipRanges": [[{ "subnet": "10.245.0.0/24" }]]
            } }),
        ],
    };
    let common = json!({
        "cniVersion": "1.1.0", "name": "testnet", "type": plugin,
        "cni.dev/valid-attachments": [{ "containerID": "pod", "ifname": "eth0" }]
    });
    let complete = |config: Value| {
        let keys = config.as_object().unwrap().clone();
        keys.iter().fold(common.clone(), |config, (key, value)| {
            with(&config, key, value)
        })
    };
    configs.into_iter().map(complete).collect()
}

fn ipam(node: &Node) -> Value {
    json!({
        "type": "host-local", "dataDir": node.data, "resolvConf": "/etc/resolv.conf",
        "ranges": [
            [{
                "subnet": "10.244.0.0/24", "rangeStart": "10.244.0.2",
                "rangeEnd": "10.244.0.250", "gateway": "10.244.0.1"
            }],
            [{ "subnet": "fd00:244::/64" }]
        ],
        "routes": [
            {
                "dst": "0.0.0.0/0", "gw": "10.244.0.1", "mtu": 1400, "advmss": 1300,
                "priority": 5, "table": 254, "scope": 0
            },
            { "dst": "::/0" }
        ]
    })
}
