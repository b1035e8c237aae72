use net::{Netlink, Netns, Qdisc, Tbf, qdisc};

use crate::{Lab, link, run};

const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
/// 1 Mbit/s with a burst of 100000 bytes.
const TBF: Tbf = Tbf {
    rate: 125_000,
    limit: 103_125,
    buffer: 12_500_000,
    burst: None,
};

fn tbf_qdisc(tbf: Tbf) -> Qdisc {
    Qdisc {
        kind: "tbf".to_owned(),
        handle: 0x10000,
        parent: ROOT,
        tbf: Some(tbf),
    }
}

fn root(netlink: &Netlink, index: u32) -> Option<Qdisc> {
    let qdiscs = netlink.qdiscs(index).expect("qdiscs");
    qdiscs.into_iter().find(|qdisc| qdisc.parent == ROOT)
}

fn tc(netns: &Netns, arguments: &str) -> Option<String> {
    run(netns, "tc", arguments)
}

#[test]
fn a_tbf_reads_back_as_made() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.add_tbf(index, TBF, false).expect("tbf");
    assert_eq!(lab.node.qdiscs(index).expect("qdiscs"), [tbf_qdisc(TBF)]);
    let error = lab.node.add_tbf(index, TBF, false).expect_err("twice");
    assert_eq!(error.errno(), Some(nix::errno::Errno::EEXIST as i32));
    let other = Tbf {
        rate: 5_000_000_000,
        limit: 250_000_000,
        buffer: 15_625,
        burst: None,
    };
    lab.node.add_tbf(index, other, true).expect("replace");
    assert_eq!(root(&lab.node, index), Some(tbf_qdisc(other)));
    lab.node.delete_root_qdisc(index).expect("delete");
    assert_eq!(
        root(&lab.node, index).map(|qdisc| qdisc.kind).as_deref(),
        Some("noqueue")
    );
    lab.node.delete_root_qdisc(index).expect("delete again");
}

#[test]
fn tc_shows_a_tbf_in_the_same_words() {
    let Some(lab) = Lab::new() else { return };
    lab.node.add_tbf(lab.host.index, TBF, false).expect("tbf");
    let Some(text) = tc(&lab.node_netns, "qdisc show dev veth0") else {
        return;
    };
    assert!(text.contains("qdisc tbf 1: root refcnt "), "{text}");
    assert!(
        text.contains(" rate 1Mbit burst 100000b lat 25ms"),
        "{text}"
    );
}

#[test]
fn a_tbf_of_tc_reads_the_same() {
    let Some(lab) = Lab::new() else { return };
    let add = "qdisc add dev veth0 root handle 1: tbf rate 1mbit burst 100000b latency 25ms";
    if tc(&lab.node_netns, add).is_some() {
        assert_eq!(root(&lab.node, lab.host.index), Some(tbf_qdisc(TBF)));
    }
}

#[test]
fn ingress_is_redirected_to_an_ifb() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.create_ifb("bwp0", None, 0, 1400).expect("ifb");
    lab.node.create_ifb("bwp1", None, 0, 1400).expect("ifb");
    let (ifb, other) = (link(&lab.node, "bwp0").index, link(&lab.node, "bwp1").index);
    assert_eq!(lab.node.redirects(index).expect("none yet"), [0; 0]);
    lab.node.ensure_ingress(index).expect("ingress");
    lab.node.ensure_ingress(index).expect("ingress again");
    let qdiscs = lab.node.qdiscs(index).expect("qdiscs");
    let ingress = Qdisc {
        kind: "ingress".to_owned(),
        handle: 0xffff_0000,
        parent: INGRESS,
        tbf: None,
    };
    assert!(qdiscs.contains(&ingress), "{qdiscs:?}");
    lab.node.add_redirect(index, ifb).expect("redirect");
    lab.node.add_redirect(index, other).expect("redirect");
    assert_eq!(lab.node.redirects(index).expect("redirects"), [ifb, other]);
    if let Some(text) = tc(&lab.node_netns, "filter show dev veth0 parent ffff:") {
        assert!(text.contains("filter protocol all pref 1 u32"), "{text}");
        assert!(text.contains("match 00000000/00000000 at 0"), "{text}");
        assert!(
            text.contains("mirred (Egress Redirect to device bwp0) stolen"),
            "{text}"
        );
    }
    lab.node.delete_redirect(index, ifb).expect("delete");
    assert_eq!(lab.node.redirects(index).expect("redirects"), [other]);
    lab.node.delete_redirect(index, ifb).expect("delete again");
    lab.node.delete_redirect(index, other).expect("delete");
    assert_eq!(lab.node.redirects(index).expect("redirects"), [0; 0]);
    lab.node.delete_ingress(index).expect("delete");
    lab.node.delete_ingress(index).expect("delete again");
    assert!(!lab.node.qdiscs(index).expect("qdiscs").contains(&ingress));
}

#[test]
fn a_clsact_qdisc_serves_and_stays() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.create_ifb("bwp0", None, 0, 1400).expect("ifb");
    let ifb = link(&lab.node, "bwp0").index;
    if tc(&lab.node_netns, "qdisc add dev veth0 clsact").is_none() {
        return;
    }
    lab.node.ensure_ingress(index).expect("clsact serves");
    lab.node.add_redirect(index, ifb).expect("redirect");
    assert_eq!(lab.node.redirects(index).expect("redirects"), [ifb]);
    lab.node.delete_redirect(index, ifb).expect("delete");
    assert_eq!(lab.node.redirects(index).expect("redirects"), [0; 0]);
    lab.node.delete_ingress(index).expect("not ours");
    let qdiscs = lab.node.qdiscs(index).expect("qdiscs");
    assert!(
        qdiscs.iter().any(|qdisc| qdisc.kind == "clsact"),
        "{qdiscs:?}"
    );
}

#[test]
fn a_redirect_of_tc_with_two_actions_is_one() {
    let Some(lab) = Lab::new() else { return };
    lab.node.create_ifb("bwp0", None, 0, 1400).expect("ifb");
    lab.node.ensure_ingress(lab.host.index).expect("ingress");
    let add = "filter add dev veth0 parent ffff: protocol all pref 1 u32 match u32 0 0 flowid 1:1 \
               action mirred egress redirect dev bwp0 action mirred egress redirect dev bwp0";
    if tc(&lab.node_netns, add).is_none() {
        return;
    }
    let ifb = link(&lab.node, "bwp0").index;
    assert_eq!(
        lab.node.redirects(lab.host.index).expect("redirects"),
        [ifb]
    );
}

#[test]
fn who_redirects_some_packets_is_told_of_too() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.create_ifb("bwp0", None, 0, 1400).expect("ifb");
    let ifb = link(&lab.node, "bwp0").index;
    lab.node.ensure_ingress(index).expect("ingress");
    let targets = || lab.node.redirect_targets(index).expect("targets");
    assert_eq!(targets(), [0; 0]);
    let add = "filter add dev veth0 parent ffff: protocol ip pref 1 u32 match ip src 192.0.2.1 \
               action mirred egress redirect dev bwp0";
    if tc(&lab.node_netns, add).is_none() {
        return;
    }
    assert_eq!(lab.node.redirects(index).expect("redirects"), [0; 0]);
    assert_eq!(targets(), [ifb]);
    assert_eq!(lab.node.redirect_targets(9999).expect("no link"), [0; 0]);
}

#[test]
fn another_s_u32_filter_stays_and_ours_leaves_no_table() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.create_ifb("bwp0", None, 0, 1400).expect("ifb");
    let ifb = link(&lab.node, "bwp0").index;
    lab.node.ensure_ingress(index).expect("ingress");
    let show = "filter show dev veth0 parent ffff:";
    for priority in [5, 1] {
        let foreign = format!(
            "filter add dev veth0 parent ffff: protocol all pref {priority} \
             u32 match ip src 192.0.2.1 flowid 1:1"
        );
        if tc(&lab.node_netns, &foreign).is_none() {
            return;
        }
        let before = tc(&lab.node_netns, show);
        lab.node.add_redirect(index, ifb).expect("redirect");
        lab.node.delete_redirect(index, ifb).expect("delete");
        assert_eq!(tc(&lab.node_netns, show), before);
    }
    assert!(lab.node.has_ingress_filters(index).expect("filters"));
}

#[test]
fn what_is_gone_needs_no_deleting() {
    let Some(lab) = Lab::new() else { return };
    let gone = 9999;
    lab.node.delete_root_qdisc(gone).expect("no link");
    lab.node.delete_ingress(gone).expect("no link");
    lab.node.delete_redirect(gone, 1).expect("no link");
    assert_eq!(lab.node.qdiscs(gone).expect("no link"), []);
    lab.node.add_tbf(gone, TBF, false).expect_err("no link");
}

#[test]
fn the_clock_is_read() {
    match qdisc::ticks_per_microsecond() {
        Ok(ticks) => assert!(ticks > 0.0),
        Err(error) => lab::skip(&format!("{error}")),
    }
}
