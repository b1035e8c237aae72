//! The backend that speaks to nf_tables itself, seen with the eyes of `nft`.

mod add;
mod check;
mod delete;
mod gc;
pub mod ruleset;

use firewall::Backend::Nftables;
use firewall::hostport;
use firewall::masquerade;

use crate::common::{in_bare_namespace, owner, ports};
use crate::pod;

/// The hash that the comments of `cont1` in `mynet` begin with, and the whole comment.
const HASH: &str = "d23676b4f2d9fe04-f37378035343678b";
const COMMENT: &str = "d23676b4f2d9fe04-f37378035343678b, net: mynet, if: eth0, id: cont1";

/// Runs `body` where `nft` is there to look at what it does.
fn in_namespace(body: fn()) {
    match lab::find_tool("nft") {
        Some(_) => in_bare_namespace(body),
        None => lab::skip("nft is not installed"),
    }
}

fn add_pod(id: &str) {
    let (addresses, mappings) = pod();
    masquerade::add(Nftables, owner(id), &addresses).unwrap();
    hostport::add(Nftables, owner(id), &ports(&mappings, &addresses)).unwrap();
}

/// As [`add_pod`], with addresses of the same network and ports of its own.
fn add_other_pod(id: &str, number: u16) {
    let (addresses, mappings) = other_pod(number);
    masquerade::add(Nftables, owner(id), &addresses).unwrap();
    hostport::add(Nftables, owner(id), &ports(&mappings, &addresses)).unwrap();
}

fn check_pod(id: &str) -> firewall::Result<()> {
    let (addresses, mappings) = pod();
    masquerade::check(Nftables, owner(id), &addresses)?;
    hostport::check(Nftables, owner(id), &ports(&mappings, &addresses))
}

fn check_other_pod(id: &str, number: u16) -> firewall::Result<()> {
    let (addresses, mappings) = other_pod(number);
    masquerade::check(Nftables, owner(id), &addresses)?;
    hostport::check(Nftables, owner(id), &ports(&mappings, &addresses))
}

fn delete_pod(id: &str) {
    masquerade::delete(owner(id), &[], true).unwrap();
    hostport::delete(owner(id), &[], true).unwrap();
}

fn other_pod(number: u16) -> (Vec<ipnet::IpNet>, Vec<hostport::Mapping>) {
    let addresses = [
        format!("10.1.2.{}/24", number.saturating_add(100)),
        format!("fd00::1:{number}/64"),
    ];
    let mappings = [hostport::Protocol::Tcp, hostport::Protocol::Udp]
        .map(|protocol| crate::common::mapping(number.saturating_add(10_000), protocol, ""));
    (
        addresses.map(|net| net.parse().unwrap()).into(),
        mappings.into(),
    )
}
