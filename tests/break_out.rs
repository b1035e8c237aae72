//! Names, words and comments stay what they are: whatever they hold, no rule, path or JSON is made that
//! was not asked for. Each is tried on the kernel with the real programs of iptables, and with nftables.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use lab::Snapshot;
use serde_json::{Value, json};
use tests::{Answer, Pod, World, kind, with};

/// What would end a word, a line, a string or a folder, or say something else, where it is not kept in.
const PAYLOADS: [&str; 15] = [
    "\"",
    "'",
    "\\",
    "a\" -j ACCEPT",
    "a\\\" -j ACCEPT \\\"",
    "-j ACCEPT",
    "-j",
    "a\n-A INPUT -j ACCEPT\n",
    "a\0b",
    "../../etc",
    "$(reboot)`reboot`;|&",
    "%s%n{0}",
    "\u{e9}\u{6f22}\u{202e}\u{1f600}",
    "COMMIT\n*filter\n-P INPUT DROP",
    "\" accept comment \"",
];

/// Words in place of conditions that would be options or commands of their own, each list the end of a
/// rule's line.
const WORDS: [&[&str]; 25] = [
    &["-j", "ACCEPT"],
    &["-g", "INPUT"],
    &["-h"],
    &["--help"],
    &["-V"],
    &["--version"],
    &["-A", "INPUT"],
    &["-I", "INPUT"],
    &["-D", "PREROUTING", "1"],
    &["-F"],
    &["-X"],
    &["-Z"],
    &["-P", "INPUT", "DROP"],
    &["-L"],
    &["-S"],
    &["-t", "filter"],
    &["-M", "/bin/false"],
    &["--modprobe=/bin/false"],
    &["-w", "1"],
    &["-c", "1", "1"],
    &["-m", "comment", "--comment", "more"],
    &["--"],
    &["!"],
    &["-m", "state", "--help"],
    &["-hs", "192.0.2.0/24"],
];

/// A place of a chain's call that takes text: where it is told.
enum Place {
    /// A variable of the environment, and what stands before the text.
    Variable(&'static str, &'static str),
    /// A key of all plugins.
    Everywhere(&'static str),
    /// A key of one plugin, by its way through the configuration, and what makes its value of the text.
    Key(&'static str, &'static str, fn(&str) -> Value),
}

fn text(payload: &str) -> Value {
    json!(payload)
}

const PLACES: [Place; 27] = [
    Place::Variable("CNI_CONTAINERID", ""),
    Place::Variable("CNI_IFNAME", ""),
    Place::Variable("CNI_ARGS", "IgnoreUnknown=1;X="),
    Place::Variable("CNI_ARGS", "IgnoreUnknown=1;IP="),
    Place::Variable("CNI_ARGS", "MAC="),
    Place::Everywhere("name"),
    Place::Everywhere("cniVersion"),
    Place::Key("bridge", "/bridge", text),
    Place::Key("bridge", "/ipMasqBackend", text),
    Place::Key("bridge", "/mac", text),
    Place::Key("bridge", "/ipam/type", text),
    Place::Key("bridge", "/ipam/resolvConf", text),
    Place::Key("bridge", "/ipam/ranges/0/0/subnet", text),
    Place::Key("bridge", "/ipam/ranges/0/0/gateway", text),
    Place::Key("bridge", "/ipam/routes/0/dst", text),
    Place::Key(
        "bridge",
        "/dns",
        |payload| json!({ "nameservers": [payload], "domain": payload }),
    ),
    Place::Key(
        "bridge",
        "/args",
        |payload| json!({ "cni": { "mac": payload } }),
    ),
    Place::Key("portmap", "/backend", text),
    Place::Key("portmap", "/externalSetMarkChain", text),
    Place::Key("portmap", "/conditionsV4", |payload| json!([payload])),
    Place::Key("portmap", "/conditionsV6", |payload| json!([payload])),
    Place::Key("portmap", "/conditionsV4", |payload| json!(["-s", payload])),
    Place::Key("portmap", "/conditionsV4", |payload| {
        json!(["-m", "comment", "--comment", payload])
    }),
    Place::Key("portmap", "/conditionsV4", |payload| json!(["-i", payload])),
    Place::Key("portmap", "/runtimeConfig/portMappings/0/hostIP", text),
    Place::Key("portmap", "/runtimeConfig/portMappings/0/protocol", text),
    Place::Key("bandwidth", "/runtimeConfig/bandwidth/ingressRate", text),
];

#[test]
fn nothing_breaks_out_by_iptables() {
    World::dual_stack("break-nft").iter().for_each(all);
}

#[test]
fn nothing_breaks_out_by_legacy_iptables() {
    World::legacy("break-legacy").iter().for_each(all);
}

#[test]
fn nothing_breaks_out_by_nftables() {
    World::nftables("break-native").iter().for_each(all);
}

/// What one node is tried with.
struct Trial<'a> {
    world: &'a World,
    pod: Pod,
    configs: Vec<Value>,
    /// The rules of a pod that nothing hostile was said of.
    plain: Vec<String>,
    made: usize,
    refused: usize,
}

fn all(world: &World) {
    let mut trial = Trial::new(world);
    let long = "x".repeat(10_000);
    for (number, place) in PLACES.iter().enumerate() {
        for payload in PAYLOADS.iter().chain([&long.as_str()]) {
            trial.place(place, payload);
        }
        world.expect_other_served(&format!("place {number}"));
    }
    for words in WORDS {
        for key in ["/conditionsV4", "/conditionsV6"] {
            let mut configs = trial.configs.clone();
            set(&mut configs[1], key, json!(words));
            trial.call(&format!("{key} {words:?}"), &configs, &[]);
        }
    }
    world.expect_untouched("after all");
    assert!(trial.made > 50 && trial.refused > 200);
    let (made, refused) = (trial.made, trial.refused);
    // Not println!, which a passing test keeps to itself.
    drop(writeln!(
        std::io::stderr(),
        "{made} pods made, {refused} refused"
    ));
}

impl<'a> Trial<'a> {
    fn new(world: &'a World) -> Trial<'a> {
        let configs = world.configs();
        let pod = world.node.pod("pod");
        world.node.add_each(&configs, &pod);
        let plain = shapes(&world.left());
        for answer in world.node.del_each(&configs, &pod, &[]) {
            answer.ok();
        }
        Trial {
            world,
            pod,
            configs,
            plain,
            made: 0,
            refused: 0,
        }
    }

    fn place(&mut self, place: &Place, payload: &str) {
        let mut configs = self.configs.clone();
        match place {
            // No variable holds a zero byte.
            Place::Variable(..) if payload.contains('\0') => {}
            Place::Variable(name, before) => {
                let value = format!("{before}{payload}");
                let case = format!("{name}={value:?}");
                self.call(&case, &configs, &[(name, &value)]);
            }
            Place::Everywhere(key) => {
                for config in &mut configs {
                    *config = with(config, key, &json!(payload));
                }
                self.call(&format!("{key}: {payload:?}"), &configs, &[]);
            }
            Place::Key(plugin, key, value) => {
                let config = configs.iter_mut().find(|config| kind(config) == *plugin);
                set(config.unwrap(), key, value(payload));
                self.call(
                    &format!("{plugin} {key}: {}", value(payload)),
                    &configs,
                    &[],
                );
            }
        }
    }

    /// ADD and DEL of the chain: an ADD that is refused leaves nothing, and one that is not makes the
    /// rules that any other pod has.
    fn call(&mut self, case: &str, configs: &[Value], env: &[(&str, &str)]) {
        let node = &self.world.node;
        let case: String = case.chars().take(300).collect();
        let mut result = Value::Null;
        let mut added = true;
        for config in configs {
            let config = with(config, "prevResult", &result);
            let answer = node.call(kind(&config), "ADD", &self.pod, &config, env);
            check(&case, &answer);
            result = answer.json;
            added = answer.status == 0;
            if !added {
                break;
            }
        }
        if added {
            self.made += 1;
            assert_eq!(shapes(&self.world.left()), self.plain, "{case}");
        } else {
            self.refused += 1;
        }
        for answer in node.del_each(configs, &self.pod, env) {
            check(&case, &answer);
            assert!(answer.status == 0 || !added, "{case}: {answer:?}");
        }
        if added {
            self.remove_bridges();
            let left = self.world.left();
            assert!(left.is_empty(), "{case}: left:\n{left}");
        }
    }

    /// A bridge stays, whatever it is called.
    fn remove_bridges(&self) {
        let netlink = self.world.node.namespace.netlink().unwrap();
        for line in self.world.left().links {
            let (name, rest) = line.split_once(' ').unwrap();
            assert!(rest.starts_with("bridge "), "{line}");
            let link = netlink.link(name).unwrap().unwrap();
            netlink.delete_link(link.index).unwrap();
        }
    }
}

/// That an answer is one: JSON with a message on one line, or nothing, and no panic.
#[track_caller]
fn check(case: &str, answer: &Answer) {
    assert!(!answer.stderr.contains("panicked"), "{case}: {answer:?}");
    match answer.status {
        0 => assert!(
            answer.stdout.is_empty() || answer.json.is_object(),
            "{case}: {answer:?}"
        ),
        _ => {
            let (code, message) = answer.error();
            assert!(
                code < 200 && message.lines().count() == 1,
                "{case}: {answer:?}"
            );
        }
    }
}

/// Puts a value where a way through objects and lists leads.
fn set(config: &mut Value, way: &str, value: Value) {
    let (parent, key) = way.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        _ => drop(
            parent
                .as_object_mut()
                .unwrap()
                .insert(key.to_owned(), value),
        ),
    }
}

/// What remains of rules when texts in quotes, hashes and conditions are taken out: program, table, chain and
/// target. Of nftables the tables: one chain more is asked where there are conditions.
fn shapes(left: &Snapshot) -> Vec<String> {
    let mut shapes: Vec<String> = left.rules.iter().map(|line| shape(line)).collect();
    shapes.sort();
    shapes.dedup_by(|one, other| one == other && one.starts_with("nft "));
    shapes
}

fn shape(line: &str) -> String {
    let (mut bare, mut quoted, mut escaped) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            c => bare.push(c),
        }
    }
    if line.starts_with("nft ") {
        return line.split(": ").next().unwrap().to_owned();
    }
    let hash = |c: char| c.is_ascii_hexdigit();
    let words: Vec<&str> = bare
        .split_whitespace()
        .map(|word| match word.contains("CNI-") {
            true => word.trim_end_matches(hash),
            false => word,
        })
        .collect();
    let target = words.iter().rposition(|word| matches!(*word, "-j" | "-g"));
    let target = target
        .and_then(|at| words.get(at..at + 2))
        .unwrap_or_default();
    let begin = words.get(..4).unwrap_or(&words);
    format!("{} … {}", begin.join(" "), target.join(" "))
}

#[test]
fn a_shape_has_no_word_of_a_comment() {
    let line =
        r#"save nat: -A CNI-DN-a0b1 -p tcp -m comment --comment "a \" -j X" -j DNAT --to 1.2.3.4"#;
    assert_eq!(shape(line), "save nat: -A CNI-DN- … -j DNAT");
}
