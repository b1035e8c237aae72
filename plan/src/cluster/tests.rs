use super::*;
use crate::Document;

fn read(text: &str) -> Result<Cluster, String> {
    let document = Document::parse("c.yaml", text).unwrap();
    let keys: ClusterKeys = document.read().map_err(|error| error.to_string())?;
    Cluster::new(keys).map_err(|fault| document.locate(fault).to_string())
}

#[test]
fn what_is_not_said_has_its_default() {
    let cluster = read(
        "podSubnet: 10.244.0.0/16,fd00:10:244::/56
nodes:
- {name: b-10, address: '192.168.0.10, fd01::10', maxPods: 20, device: eth1}
- {name: b-2, podCIDR: [10.244.7.0/24, 'fd00:10:244:7::/64']}
device: eth0
cloudNetwork: vpc
",
    )
    .unwrap();
    let prefixes: Vec<_> = cluster.pods.iter().map(|pods| pods.node_prefix).collect();
    assert_eq!(prefixes, [24, 64]);
    assert_eq!(cluster.network, "k8nd-pod-network");
    assert_eq!((cluster.bridge.as_str(), cluster.mtu), ("cni0", None));
    assert_eq!(cluster.cloud_network, "vpc");
    let [two, ten] = &cluster.nodes[..] else {
        panic!("{cluster:?}")
    };
    assert_eq!((two.name.as_str(), two.pod_limit), ("b-2", 110));
    assert_eq!(two.device.as_deref(), Some("eth0"));
    assert_eq!(two.fixed.len(), 2);
    assert_eq!((two.address(true), two.address(false)), (None, None));
    assert_eq!((ten.pod_limit, ten.device.as_deref()), (20, Some("eth1")));
    assert_eq!(ten.address(false).unwrap().to_string(), "fd01::10");
}

#[track_caller]
fn expect_refused(cases: &[(&str, &str)]) {
    for (text, said) in cases {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(said), "{text}: {error}");
    }
}

#[test]
fn ranges_that_do_not_go_together_are_refused() {
    expect_refused(&[
        (
            "podSubnet: 10.244.3.0/16",
            "c.yaml:1: podSubnet: \"10.244.3.0/16\" has bits set beyond its prefix: 10.244.0.0/16 \
             was probably meant",
        ),
        (
            "podSubnet:\n- 10.244.0.0/16\n- 10.245.0.0/16",
            "c.yaml:3: podSubnet[1]: 10.244.0.0/16 and 10.245.0.0/16 are both IPv4",
        ),
        (
            "podSubnet: 10.244.0.0/16\nnodePrefix: 12",
            "c.yaml:2: nodePrefix: 12, a node's prefix, is shorter than that of the pod range \
             10.244.0.0/16 that it is to be a part of: expected 16 to 30",
        ),
        (
            "podSubnet: 10.244.0.0/16\nnodePrefix: 31",
            "c.yaml:2: nodePrefix: 31, a node's prefix, leaves no address",
        ),
        (
            "podSubnet: 10.244.0.0/16\nnodePrefix: 300",
            "c.yaml:2: nodePrefix: invalid value: integer `300`",
        ),
        (
            "podSubnet: 10.244.0.0/25",
            "c.yaml:1: podSubnet: 10.244.0.0/25 is too small for a node's range of /24, the default: \
             expected nodePrefix (--node-prefix) of 25 to 30",
        ),
        (
            "podSubnet: 10.244.0.0/31",
            "c.yaml:1: podSubnet: 10.244.0.0/31 has no address",
        ),
        (
            "podSubnet: 10.0.0.0/8,fd00::/48\nnodePrefix: 24",
            "c.yaml:2: nodePrefix: 1 for 2 pod ranges",
        ),
        (
            "serviceSubnet: 10.96.0.0",
            "c.yaml:1: serviceSubnet: \"10.96.0.0\" is no range",
        ),
    ]);
}

#[test]
fn other_values_that_do_not_go_together_are_refused() {
    expect_refused(&[
        (
            "mtu: 67",
            "c.yaml:1: mtu: 67 is no MTU of these pods: expected 68 to 65535",
        ),
        (
            "podSubnet: fd00::/48\nmtu: 1000",
            "c.yaml:2: mtu: 1000 is no MTU of these pods: expected 1280 to 65535",
        ),
        (
            "bridge: all",
            "c.yaml:1: bridge: \"all\" is no bridge's name",
        ),
        ("bridge: default", "c.yaml:1: bridge: \"default\" is no"),
        ("bridge: lo", "c.yaml:1: bridge: \"lo\" is no bridge's name"),
        (
            "device: eth0\nbridge: eth0",
            "c.yaml:2: bridge: \"eth0\" is the device by which nodes are reached",
        ),
        (
            "nodes:\n- {name: a, device: br0}\nbridge: br0",
            "c.yaml:3: bridge: \"br0\" is the device",
        ),
        (
            "keptBack:\n- {name: a, taint: node.kubernetes.io/unschedulable}\n",
            "c.yaml:2: keptBack[0].taint: \"node.kubernetes.io/unschedulable\" is a taint of the node \
             controller",
        ),
        (
            "network: a b",
            "c.yaml:1: network: \"a b\" is no network's name",
        ),
        (
            "cloudNetwork: $(x)",
            "c.yaml:1: cloudNetwork: \"$(x)\" is no cloud",
        ),
        (
            "keptBack:\n- {name: a, taint: a=b}\n",
            "c.yaml:2: keptBack[0].taint: \"a=b\" is no key of a taint",
        ),
    ]);
}

#[test]
fn nodes_that_do_not_go_together_are_refused() {
    expect_refused(&[
        (
            "podSubnet: fd00::/48\nnodes:\n- name: a\n  podCIDR: 10.244.0.0/24",
            "c.yaml:4: nodes[0].podCIDR: 10.244.0.0/24 is IPv4, and podSubnet has no IPv4 range",
        ),
        (
            "podSubnet: 10.244.0.0/16\nnodes:\n- name: a\n  podCIDR: 10.245.0.0/24",
            "c.yaml:4: nodes[0].podCIDR: 10.245.0.0/24 is outside of podSubnet 10.244.0.0/16",
        ),
        (
            "podSubnet: 10.244.0.0/16\nnodes:\n- name: a\n  podCIDR: 10.244.0.0/31",
            "c.yaml:4: nodes[0].podCIDR: 10.244.0.0/31 has no address",
        ),
        (
            "nodes:\n- name: a\n  address: 10.0.0",
            "c.yaml:3: nodes[0].address: \"10.0.0\" is neither",
        ),
        (
            "nodes:\n- name: a\n  address: 10.0.0.1,10.0.0.2",
            "c.yaml:3: nodes[0].address: 10.0.0.1 and 10.0.0.2 are both IPv4: expected one address, or \
             one of each family",
        ),
        (
            "nodes:\n- name: a\n  address: [10.0.0.1, 'ff02::1']",
            "c.yaml:3: nodes[0].address: ff02::1 is multicast: no route can lead",
        ),
        (
            "nodes:\n- name: a\n  maxPods: 0",
            "c.yaml:3: nodes[0].maxPods: 0 leaves no pod",
        ),
        (
            "nodes:\n- name: a\n  maxPods: -1",
            "c.yaml:3: nodes[0].maxPods: invalid value",
        ),
        (
            "nodes:\n- name: a\n  device: 'a b'",
            "c.yaml:3: nodes[0].device: \"a b\" is no interface's name",
        ),
        (
            "nodes:\n- name: a\n  adress: 10.0.0.1",
            "c.yaml:3: nodes[0].adress: unknown field `adress`",
        ),
        (
            "nodes:\n- name: a\n- name: a\n",
            "c.yaml:3: nodes[1].name: \"a\" is the name of two nodes",
        ),
        (
            "nodes:\n- {name: a, address: 10.0.0.1}\n- {name: b, address: 10.0.0.1}\n",
            "c.yaml:3: nodes[1].address: 10.0.0.1 is the address of a already",
        ),
        ("nodes:\n- [a]\n", "c.yaml:2: nodes[0]: invalid length"),
        (
            "nodes:\n- a\n",
            "c.yaml:2: nodes[0]: invalid type: string \"a\", expected keys of a node, as name",
        ),
        (
            "nodes:\n- name: A\n",
            "c.yaml:2: nodes[0].name: \"A\" is no node's name",
        ),
    ]);
}

#[test]
fn which_node_a_machine_is() {
    let text = "nodes:\n- {name: a, address: 10.0.0.1}\n- {name: b.example, address: 'fd00::2'}\n";
    let cluster = read(text).unwrap();
    let which = |named: Option<&str>, host: &str, address: &str| {
        let machine = Machine {
            named: named.map(str::to_owned),
            host_name: host.to_owned(),
            addresses: vec![address.parse().unwrap()],
        };
        cluster.which(&machine).map(|node| node.name.clone())
    };
    assert_eq!(which(Some("a"), "b.example", "fd00::2").unwrap(), "a");
    assert_eq!(which(None, "b.example", "10.0.0.1").unwrap(), "b.example");
    assert_eq!(which(None, "a.example", "10.0.0.9").unwrap(), "a");
    assert_eq!(which(None, "x", "fd00::2").unwrap(), "b.example");
    assert_eq!(
        which(Some("c"), "a", "10.0.0.1").unwrap_err(),
        "\"c\" is no node's: there are \"a, b.example\""
    );
    let nobody = which(None, "x", "10.0.0.9").unwrap_err();
    assert_eq!(
        nobody,
        "neither the host name \"x\" nor an address of this machine is a node's: there are \"a, \
         b.example\""
    );
}
