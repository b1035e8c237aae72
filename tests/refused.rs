//! An ADD of the bridge that is refused leaves everything as it was, and says why.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Node, Pod, World, with};

/// A configuration or environment that ADD refuses.
struct Refusal {
    /// Keys that are replaced in the configuration, as JSON.
    keys: Value,
    env: &'static [(&'static str, &'static str)],
    code: u64,
    /// What the message or the details say.
    words: &'static [&'static str],
}

impl Refusal {
    fn case(&self) -> String {
        format!("{} {:?}", self.keys, self.env)
    }

    fn config(&self, base: &Value) -> Value {
        let keys = self.keys.as_object().into_iter().flatten();
        keys.fold(base.clone(), |config, (key, value)| {
            with(&config, key, value)
        })
    }
}

fn keys(keys: Value, code: u64, words: &'static [&'static str]) -> Refusal {
    Refusal {
        keys,
        env: &[],
        code,
        words,
    }
}

fn env(
    env: &'static [(&'static str, &'static str)],
    code: u64,
    words: &'static [&'static str],
) -> Refusal {
    Refusal {
        keys: json!({}),
        env,
        code,
        words,
    }
}

/// Values of the wrong type, out of range, or that make no sense together.
fn of_the_configuration() -> Vec<Refusal> {
    vec![
        keys(json!({ "mtu": 67 }), 7, &["mtu: 67", "68 to 65535"]),
        keys(json!({ "mtu": 65536 }), 7, &["mtu: 65536"]),
        keys(json!({ "mtu": -1 }), 7, &["mtu: -1"]),
        keys(json!({ "mtu": "x" }), 6, &["mtu", "\"x\""]),
        keys(json!({ "mtu": 1500.5 }), 6, &["mtu", "1500.5"]),
        keys(json!({ "isGateway": 1 }), 6, &["isGateway", "1"]),
        keys(json!({ "ipam": "x" }), 6, &["ipam", "\"x\""]),
        keys(json!({ "dns": 5 }), 6, &["dns", "5"]),
        keys(
            json!({ "hairpinMode": true, "promiscMode": true }),
            7,
            &[
                "cannot set hairpin mode and promiscuous mode at the same time",
                "hairpinMode",
                "promiscMode",
            ],
        ),
        keys(
            json!({ "disableContainerInterface": true }),
            7,
            &["cannot use IPAM when DisableContainerInterface flag is set"],
        ),
    ]
}

/// VLANs that are none, or whose gateway cannot be named.
fn of_vlans() -> Vec<Refusal> {
    vec![
        keys(
            json!({ "vlan": 4095 }),
            7,
            &["invalid VLAN ID 4095 (must be between 0 and 4094)", "vlan"],
        ),
        keys(
            json!({ "vlanTrunk": [{ "id": 7 }, { "minID": 7 }] }),
            7,
            &[
                "maxID is missing",
                "vlanTrunk[1].minID: 7",
                "both or neither",
            ],
        ),
        keys(
            json!({ "vlan": 4094, "bridge": "bridge-of-1" }),
            7,
            &["vlan: gateway \"bridge-of-1.4094\"", "15"],
        ),
    ]
}

/// Names that are none, and values that have no meaning.
fn of_names() -> Vec<Refusal> {
    vec![
        keys(json!({ "macspoofchk": "yes" }), 6, &["\"macspoofchk\""]),
        keys(
            json!({ "ipMasqBackend": "pf" }),
            7,
            &["unknown ipmasq backend \"pf\"", "ipMasqBackend"],
        ),
        keys(json!({ "bridge": "a/b" }), 7, &["bridge: \"a/b\""]),
        keys(
            json!({ "bridge": "all" }),
            7,
            &["bridge: \"all\"", "not `all` or `default`"],
        ),
        keys(json!({ "bridge": "default" }), 7, &["bridge: \"default\""]),
        keys(json!({ "bridge": "br%d" }), 7, &["bridge: \"br%d\""]),
        keys(
            json!({ "bridge": "sixteen-bytes-xx" }),
            7,
            &["bridge: \"sixteen-bytes-xx\"", "15"],
        ),
        keys(
            json!({ "args": { "cni": { "mac": "zz" } } }),
            7,
            &["failed to make veth pair: address zz: invalid MAC address"],
        ),
        keys(
            json!({ "cniVersion": "9.9.9" }),
            1,
            &[
                "incompatible CNI versions",
                "config is \"9.9.9\", plugin supports [\"0.1.0\" \"0.2.0\" \"0.3.0\" \"0.3.1\" \
                 \"0.4.0\" \"1.0.0\" \"1.1.0\"]",
            ],
        ),
        keys(
            json!({ "cniVersion": "0.2.0", "ipam": {} }),
            7,
            &[
                "cannot convert: no valid IP addresses",
                "0.2.0",
                "ipam.type",
            ],
        ),
        keys(json!({ "name": null }), 7, &["missing network name"]),
        keys(
            json!({ "name": "a/b" }),
            7,
            &["invalid characters found in network name", "a/b"],
        ),
        keys(
            json!({ "ipam": { "type": "no-such-ipam" } }),
            4,
            &[
                "failed to find plugin \"no-such-ipam\" in path [",
                "CNI_PATH",
            ],
        ),
        keys(
            json!({ "ipam": { "type": "../bridge" } }),
            7,
            &["invalid plugin name: ../bridge"],
        ),
    ]
}

/// What can be seen from the environment.
fn of_the_environment() -> Vec<Refusal> {
    vec![
        env(&[("CNI_NETNS", "")], 4, &["CNI_NETNS"]),
        env(
            &[("CNI_NETNS", "/run/netns/of-nobody")],
            4,
            &["CNI_NETNS", "/run/netns/of-nobody", "no such file"],
        ),
        env(
            &[("CNI_NETNS", "/etc/passwd")],
            4,
            &["CNI_NETNS", "/etc/passwd"],
        ),
        env(&[("CNI_NETNS", "/etc")], 4, &["CNI_NETNS", "/etc"]),
        env(
            &[("CNI_NETNS", "/proc/self/ns/uts")],
            4,
            &["CNI_NETNS", "/proc/self/ns/uts"],
        ),
        env(
            &[("CNI_NETNS", "/proc/self/ns/net")],
            4,
            &[
                "plugin's netns and netns from CNI_NETNS should not be the same",
                "/proc/self/ns/net",
            ],
        ),
        env(
            &[("CNI_IFNAME", "sixteen-bytes-xx")],
            4,
            &["interface name is too long", "sixteen-bytes-xx"],
        ),
        env(&[("CNI_IFNAME", "a/b")], 4, &["CNI_IFNAME", "a/b"]),
        env(
            &[("CNI_IFNAME", "eth%d")],
            4,
            &["CNI_IFNAME: \"eth%d\"", "without `/`, `:`, `%`"],
        ),
        env(&[("CNI_IFNAME", "all")], 4, &["CNI_IFNAME: \"all\""]),
        env(
            &[("CNI_IFNAME", "default")],
            4,
            &["CNI_IFNAME: \"default\"", "not `all` or `default`"],
        ),
        env(
            &[("CNI_CONTAINERID", "-x")],
            4,
            &["invalid characters in containerID", "-x"],
        ),
        env(
            &[("CNI_CONTAINERID", ""), ("CNI_IFNAME", "")],
            4,
            &["required env variables [CNI_CONTAINERID,CNI_IFNAME] missing"],
        ),
        env(
            &[("CNI_ARGS", "A=1;B=2")],
            4,
            &["ARGS: unknown args [\"A=1\" \"B=2\"]", "CNI_ARGS"],
        ),
        env(
            &[("CNI_ARGS", "IP")],
            4,
            &["ARGS: invalid pair \"IP\"", "CNI_ARGS"],
        ),
        env(&[("CNI_PATH", "")], 4, &["CNI_PATH"]),
        // Every namespace has one.
        env(
            &[("CNI_IFNAME", "lo")],
            103,
            &["container veth name (\"lo\")", "already exists"],
        ),
    ]
}

fn all() -> impl Iterator<Item = Refusal> {
    of_the_configuration()
        .into_iter()
        .chain(of_vlans())
        .chain(of_names())
        .chain(of_the_environment())
}

fn refuse(node: &Node, pod: &Pod, base: &Value, refusal: &Refusal) {
    let config = refusal.config(base);
    let answer = node.call("bridge", "ADD", pod, &config, refusal.env);
    answer.expect_refused(&refusal.case(), refusal.code, refusal.words);
}

#[test]
fn what_is_not_valid_changes_nothing_on_a_fresh_node() {
    let Some(node) = Node::new("refused-fresh") else {
        return;
    };
    let base = node.bridge_config(json!({ "ipMasq": true }));
    let pod = node.pod("pod");
    let (before, in_pod) = (node.snapshot("testnet"), links(&pod));
    for refusal in all() {
        refuse(&node, &pod, &base, &refusal);
        assert_eq!(node.snapshot("testnet"), before, "{}", refusal.case());
        assert_eq!(links(&pod), in_pod, "{}", refusal.case());
    }
    assert!(!node.data.exists(), "the store was made");
    node.call("bridge", "ADD", &pod, &base, &[]).ok();
}

#[test]
fn what_is_not_valid_changes_nothing_on_a_node_in_use() {
    for world in World::of_each_family("refused-used") {
        let base = &world.configs()[0];
        let pod = world.node.pod("pod");
        for refusal in all() {
            refuse(&world.node, &pod, base, &refusal);
            world.expect_bare(&refusal.case(), &pod);
            world.expect_untouched(&refusal.case());
        }
        let pod = world.pod("pod-of-then");
        world.del("at the end", &pod.1, &pod.0, &[]);
        world.expect_untouched("at the end");
    }
}

#[test]
fn an_interface_that_is_there_stays() {
    let Some(world) = World::new("refused-taken") else {
        return;
    };
    let base = &world.configs()[0];
    let words = [
        "container veth name (\"eth0\")",
        "already exists",
        "CNI_IFNAME=eth0",
    ];
    // ADD again for the same pod, and for its namespace under another id.
    let again = |id: &str| {
        let env = [("CNI_CONTAINERID", id)];
        let answer = world.node.call("bridge", "ADD", &world.other, base, &env);
        answer.expect_refused(id, 103, &words);
        world.expect_untouched(id);
    };
    again("other");
    again("stranger");
    // One of another kind and origin.
    let pod = world.node.pod("pod");
    let ip = |words: &[&str]| pod.namespace.read("ip", words).unwrap();
    ip(&["link", "add", "eth0", "type", "bridge"]);
    let answer = world.node.call("bridge", "ADD", &pod, base, &[]);
    answer.expect_refused("another link", 103, &words);
    world.expect_untouched("another link");
    assert!(ip(&["-d", "link", "show", "eth0"]).contains("bridge"));
}

#[test]
fn a_bridge_that_is_none_stays() {
    let Some(world) = World::new("refused-bridge") else {
        return;
    };
    let config = with(&world.configs()[0], "bridge", &json!("eth0"));
    let pod = world.node.pod("pod");
    let answer = world.node.call("bridge", "ADD", &pod, &config, &[]);
    let words = [
        "failed to create bridge \"eth0\": \"eth0\" already exists but is not a bridge",
        "veth",
    ];
    answer.expect_refused("bridge: eth0", 103, &words);
    world.expect_bare("bridge: eth0", &pod);
    world.expect_untouched("bridge: eth0");
}

/// A bridge with an address of another network: refused, unless it is to be replaced.
#[test]
fn a_foreign_address_of_the_bridge_stays_unless_it_is_to_be_replaced() {
    // The range before and then, gateways, and the address that each must not or must have.
    let table = [
        (
            "ipv4",
            "10.1.0.0/16",
            "10.2.0.0/16",
            "10.1.0.1/16",
            "10.2.0.1/16",
        ),
        (
            "prefix",
            "10.1.0.0/16",
            "10.1.0.0/24",
            "10.1.0.1/16",
            "10.1.0.1/24",
        ),
        ("ipv6", "fd00::/64", "fd00::/48", "fd00::1/64", "fd00::1/48"),
    ];
    for (case, old, new, old_gateway, new_gateway) in table {
        let Some(node) = Node::new(&format!("refused-{case}")) else {
            return;
        };
        let config = |subnet: &str| {
            let ipam = json!({ "type": "host-local", "subnet": subnet, "dataDir": node.data });
            node.bridge_config(json!({ "ipam": ipam, "ipMasq": true }))
        };
        let first = node.pod("first");
        node.call("bridge", "ADD", &first, config(old), &[]).ok();
        let before = node.snapshot("testnet");
        let bridge = |snapshot: &lab::Snapshot| {
            let mut links = snapshot.links.iter();
            links
                .find(|line| line.starts_with("cni0 "))
                .unwrap()
                .clone()
        };

        let pod = node.pod("second");
        let refused = node.call("bridge", "ADD", &pod, config(new), &[]);
        let words = [
            "failed to set bridge addr: \"cni0\" already has an IP address different from",
            old_gateway,
            new_gateway,
            "forceAddress: false",
        ];
        refused.expect_refused(case, 103, &words);
        assert_eq!(node.snapshot("testnet"), before, "{case}");

        let forced = with(&config(new), "forceAddress", &json!(true));
        let added = node.call("bridge", "ADD", &pod, &forced, &[]);
        let gateway = added.ok()["ips"][0]["gateway"].as_str().unwrap();
        pod.namespace.ping(gateway.parse().unwrap()).unwrap();
        let line = bridge(&node.snapshot("testnet"));
        assert!(line.contains(new_gateway), "{case}: {line}");
        assert!(!line.contains(old_gateway), "{case}: {line}");
    }
}

fn links(pod: &Pod) -> Vec<String> {
    let links = pod.namespace.netlink().unwrap().links().unwrap();
    links.into_iter().map(|link| link.name).collect()
}
