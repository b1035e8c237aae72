//! Rules in the kernel: with both variants of iptables, and by nftables.

// The helpers of a test fail as it does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod add;
mod check;
mod common;
mod delete;
mod gc;
mod kernel_alone;
mod macspoof;
mod nft;
mod view;

use common::{mapping, nets, owner, ports};
use firewall::Backend::Iptables;
use firewall::hostport::{self, Mapping, Protocol};
use firewall::masquerade;
use ipnet::IpNet;

/// Names and comments of the container `cont1` in the network `mynet`.
const DN: &str = "CNI-DN-c729ec77c46fa9b53d651";
const MASQ: &str = "CNI-c729ec77c46fa9b53d651af8";
const COMMENT: &str = r#"--comment "name: \"mynet\" id: \"cont1\"""#;
const DNAT_COMMENT: &str = r#"--comment "dnat name: \"mynet\" id: \"cont1\"""#;

/// A pod of both families with both kinds of rules.
fn pod() -> (Vec<IpNet>, [Mapping; 2]) {
    let mappings = [
        mapping(8080, Protocol::Tcp, ""),
        mapping(53, Protocol::Udp, "192.168.77.1"),
    ];
    (nets(&["10.1.2.2/24", "fd00::2/64"]), mappings)
}

fn add_pod(id: &str) {
    let (addresses, mappings) = pod();
    masquerade::add(Iptables, owner(id), &addresses).unwrap();
    hostport::add(Iptables, owner(id), &ports(&mappings, &addresses)).unwrap();
}

fn check_pod(id: &str) -> firewall::Result<()> {
    let (addresses, mappings) = pod();
    masquerade::check(Iptables, owner(id), &addresses)?;
    hostport::check(Iptables, owner(id), &ports(&mappings, &addresses))
}

fn delete_pod(id: &str) {
    masquerade::delete(owner(id), &[], true).unwrap();
    hostport::delete(owner(id), &[], true).unwrap();
}
