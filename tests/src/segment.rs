//! Several nodes on one segment, and the cluster file that describes them.

use std::fs;
use std::path::PathBuf;

use cni::runtime::NetworkList;
use ipnet::IpNet;
use lab::{Lab, Namespace};
use net::{Bridge, Veth};

use crate::{Answer, Node, at};

/// The cluster of three workers, with pods of both families.
const CLUSTER: &str = "\
podSubnet: [10.200.0.0/16, 'fd00:200::/56']
nodes:
- {name: k8sworker0, address: ['192.168.199.210', 'fd99::210']}
- {name: k8sworker1, address: ['192.168.199.211', 'fd99::211']}
- {name: k8sworker2, address: ['192.168.199.212', 'fd99::212']}
";

/// Three nodes, `k8sworker0` to `k8sworker2`, each with its uplink `eth0` on one segment, and a host
/// on it that is no node.
#[derive(Debug)]
pub struct Segment {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// A host that is none, 192.168.199.1 and fd99::1; `eth0` as well.
    pub other: Namespace,
    /// The cluster file.
    pub file: PathBuf,
    switch: Namespace,
    // Dropped last.
    _lab: Lab,
}

impl Segment {
    /// `None`, said aloud and counted, where this machine cannot make it.
    pub fn new(label: &str) -> Option<Segment> {
        let nodes: Option<Vec<Node>> = (0..3).map(|_| Node::new(label)).collect();
        let nodes = nodes?;
        let lab = Lab::new(label).unwrap();
        let switch = lab.namespace("switch").unwrap();
        let bridge = Bridge {
            name: "br0",
            mac: None,
            mtu: None,
            vlan_filtering: false,
        };
        switch.netlink().unwrap().create_bridge(&bridge).unwrap();
        switch.set_up("br0").unwrap();
        // Its frames are no packets to be filtered.
        for family in ["iptables", "ip6tables"] {
            let path = format!("net/bridge/bridge-nf-call-{family}");
            switch
                .run(|| net::sysctl::write(&path, "0"))
                .unwrap()
                .unwrap();
        }
        let segment = Segment {
            other: lab.namespace("other").unwrap(),
            file: lab.folder().join("cluster.yaml"),
            switch,
            nodes,
            _lab: lab,
        };
        fs::write(&segment.file, CLUSTER).unwrap();
        for (index, node) in segment.nodes.iter().enumerate() {
            let addresses = [
                format!("192.168.199.21{index}/24"),
                format!("fd99::21{index}/64"),
            ];
            let addresses = addresses.map(|address| at(&address));
            segment.join(&node.namespace, &format!("node{index}"), "eth0", &addresses);
        }
        let addresses = ["192.168.199.1/24", "fd99::1/64"].map(at);
        segment.join(&segment.other, "other", "eth0", &addresses);
        Some(segment)
    }

    /// Gives a namespace a link on the segment; `port` is the switch's name for it.
    pub fn join(&self, member: &Namespace, port: &str, link: &str, addresses: &[IpNet]) {
        let switch = self.switch.netlink().unwrap();
        let bridge = switch.link("br0").unwrap().unwrap();
        switch
            .create_veth(&Veth {
                name: port,
                mac: None,
                group: 0,
                mtu: None,
                master: Some(bridge.index),
                peer_name: link,
                peer_mac: None,
                peer_netns: member.netns(),
            })
            .unwrap();
        member.set_up(link).unwrap();
        for address in addresses {
            member.add_address(link, *address).unwrap();
        }
    }

    /// The namespace of the switch, whose ports `node0`, `node1`, `node2` and `other` are.
    pub fn switch(&self) -> &Namespace {
        &self.switch
    }

    /// `podnet` on a node, with the cluster file as its last option.
    #[track_caller]
    pub fn podnet(&self, node: usize, words: &str) -> Answer {
        let file = self.file.to_string_lossy();
        let words = words.split_whitespace().chain(["-f", &file]);
        let words: Vec<&str> = words.collect();
        self.nodes[node].podnet(&words)
    }

    /// A node's planned conflist, put into its folder of configurations.
    #[track_caller]
    pub fn conflist(&self, node: usize) -> NetworkList {
        let planned = self.podnet(node, "plan conflist");
        let list = self.nodes[node].list(planned.ok().clone());
        self.nodes[node].configure(&list);
        list
    }
}
