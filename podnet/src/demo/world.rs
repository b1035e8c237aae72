//! A node with an uplink to an outside host, and two namespaces that become pods.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use lab::{End, Lab, Namespace};

use super::Outcome;

/// The node's address on its uplink.
pub(super) const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
/// The outside host, which knows no way to the pods' network.
pub(super) const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The namespaces. The lab is dropped last, and removes them.
#[derive(Debug)]
pub(super) struct World {
    pub(super) node: Namespace,
    pub(super) outside: Namespace,
    pub(super) web: Namespace,
    pub(super) client: Namespace,
    pub(super) lab: Lab,
}

impl World {
    pub(super) fn new() -> Outcome<World> {
        let lab = Lab::new("demo")?;
        let world = World {
            node: lab.namespace("node")?,
            outside: lab.namespace("outside")?,
            web: lab.namespace("web")?,
            client: lab.namespace("client")?,
            lab,
        };
        lab::connect(
            End {
                namespace: &world.node,
                link: "uplink",
                addresses: &[IpNet::new(NODE, 24)?],
            },
            End {
                namespace: &world.outside,
                link: "eth0",
                addresses: &[IpNet::new(OUTSIDE, 24)?],
            },
        )?;
        Ok(world)
    }

    /// Lets the namespaces outlive the demo; returns how to look into them.
    pub(super) fn keep(&self) -> Outcome<String> {
        self.lab.keep()?;
        let (node, web) = (self.node.name(), self.web.name());
        let [outside, client] = [self.outside.name(), self.client.name()];
        Ok(format!(
            "\nkept; look into it:\n\
             \x20 ip netns exec {node} ip -brief address\n\
             \x20 ip netns exec {node} iptables-save -t nat\n\
             \x20 ip netns exec {node} tc qdisc show\n\
             \x20 ip netns exec {web} ip route\n\
             \x20 ip netns exec {client} ip route get {OUTSIDE}\n\
             \x20 ip netns exec {outside} ip -brief address\n\
             \x20 ls {}\n\
             remove it: podnet demo --remove\n",
            self.lab.folder().display()
        ))
    }
}
