//! Faults that once left something, made again.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use faults::{Options, run};

/// Makes all cases of that name: there must be some, and no finding.
fn make(only: &str) {
    if let Err(reason) = lab::supported().and_then(|()| lab::trace::supported()) {
        return lab::skip(&reason);
    }
    if !lab::trace::CAN_FAIL {
        return lab::skip("system calls can be made to fail on x86-64 alone");
    }
    let options = Options {
        only: only.parse().unwrap(),
        jobs: 4,
        ..Options::default()
    };
    let tally = run(&options).unwrap();
    assert!(tally.tried() > 0, "{only}: no such case");
    assert_eq!(tally.findings() + tally.flows(), 0, "{only}:\n{tally}");
}

/// The kernel has made what it was asked for, and its answer is lost.
#[test]
fn answers_to_bandwidth_are_lost() {
    make("nft-dual/ADD/bandwidth/EIO/del/0.45.*");
}

/// Whether there are rules is not known then.
#[test]
fn the_kernel_is_busy_when_gc_asks_for_chains() {
    make("nft-dual/GC/bridge/netlink-busy/gc/0.*");
}

/// What the IPAM says cannot be read.
#[test]
fn the_ipam_cannot_be_heard() {
    make("nft-dual/ADD/bridge/EIO/del/0.0.*");
}

/// Flows of UDP are deleted in a second attempt.
#[test]
fn conntrack_is_busy() {
    make("nft-dual/DEL/portmap/netlink-busy/del/0.44.*");
}

/// An iptables that was told nothing succeeds.
#[test]
fn iptables_cannot_be_given_its_rules() {
    make("nft-dual/ADD/portmap/EIO/del/0.1.*");
    make("nft-dual/GC/portmap/EIO/gc/0.1.*");
}

/// A reservation that cannot be read is another's.
#[test]
fn a_reservation_cannot_be_read() {
    make("nftables-single/DEL/bridge/EPERM/del/1.0.*");
}

/// It lists what it could get, and succeeds.
#[test]
fn iptables_save_is_refused_some_rules() {
    make("nft-single/GC/portmap/netlink-busy/gc/1.44.10");
}

/// Rules that nobody expects are left where they cannot be seen.
#[test]
fn nftables_is_not_heard() {
    for nth in [4, 5, 6] {
        make(&format!("nftables-single/GC/portmap/EPERM/gc/0.45.{nth}"));
    }
}

/// A program that looks for tables of the legacy variant makes them.
#[test]
fn names_of_legacy_tables_cannot_be_read() {
    make("nftables-single/GC/portmap/EAGAIN/gc/0.0.*");
}
