use super::*;
use crate::config::Limit;

fn want() -> (Want, Link) {
    let limits = Limits {
        ingress: Some(Limit {
            rate: 125_000,
            burst: 100_000,
        }),
        egress: Some(Limit {
            rate: 250_000,
            burst: 200_000,
        }),
    };
    let attachment = Attachment::new("net", "id", "eth0");
    let host = Link {
        index: 5,
        name: "veth0".to_string(),
        mtu: 1450,
        ..Link::default()
    };
    (Want::new(&limits, &attachment, &host, 15.625), host)
}

fn tbf_qdisc(tbf: Tbf) -> Qdisc {
    Qdisc {
        kind: "tbf".to_string(),
        handle: TBF_HANDLE,
        parent: ROOT,
        tbf: Some(tbf),
    }
}

fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
    Qdisc {
        kind: kind.to_string(),
        handle,
        parent,
        tbf: None,
    }
}

/// All as it should be.
fn seen(want: &Want) -> Seen {
    let egress = want.egress.as_ref().unwrap();
    Seen {
        host: vec![
            tbf_qdisc(want.ingress.unwrap()),
            qdisc("ingress", 0xffff_0000, INGRESS),
        ],
        redirects: vec![9],
        pod_mtu: 1450,
        ifb: Some(Link {
            index: 9,
            name: egress.identity.name.clone(),
            kind: "ifb".to_string(),
            up: true,
            mtu: 1450,
            ..Link::default()
        }),
        ifb_qdiscs: vec![tbf_qdisc(egress.tbf)],
    }
}

#[test]
fn both_directions_have_their_bucket() {
    let (want, _) = want();
    let ingress = want.ingress.unwrap();
    let egress = want.egress.unwrap();
    assert_eq!((ingress.rate, ingress.limit), (125_000, 103_125));
    assert_eq!((egress.tbf.rate, egress.tbf.limit), (250_000, 206_250));
    assert_eq!(egress.mtu, 1450);
}

#[test]
fn every_difference_is_noticed() {
    let (want, host) = want();
    assert_eq!(want.compare(&host, &seen(&want)), Ok(()));
    type Change = fn(&mut Seen);
    let cases: &[(&str, Change)] = &[
        ("Failed to find qdisc", |seen| drop(seen.host.remove(0))),
        ("Failed to find qdisc", |seen| {
            seen.host[0] = qdisc("fq", 0x80010000, ROOT);
        }),
        ("Rate doesn't match", |seen| {
            seen.host[0].tbf.as_mut().unwrap().rate += 1;
        }),
        ("Limit doesn't match", |seen| {
            seen.host[0].tbf.as_mut().unwrap().limit += 1;
        }),
        ("Buffer doesn't match", |seen| {
            seen.ifb_qdiscs[0].tbf.as_mut().unwrap().buffer -= 1;
        }),
        ("Failed to find qdisc", |seen| seen.ifb_qdiscs.clear()),
        ("get ifb device: Link not found", |seen| seen.ifb = None),
        ("is down", |seen| seen.ifb.as_mut().unwrap().up = false),
        (
            " has MTU 1500 and should have 1450, as host veth \"veth0\"",
            |seen| seen.ifb.as_mut().unwrap().mtu = 1500,
        ),
        (
            "host veth \"veth0\" has MTU 1450 and should have 1500, as its other end in the pod and ifb",
            |seen| {
                seen.ifb.as_mut().unwrap().mtu = 1500;
                seen.pod_mtu = 1500;
            },
        ),
        ("is not redirected to", |seen| seen.redirects = vec![8]),
    ];
    for (text, change) in cases {
        let mut changed = seen(&want);
        change(&mut changed);
        let error = want.compare(&host, &changed).unwrap_err();
        assert!(error.msg.contains(text), "{text}: {error}");
        assert_eq!(error.code, cni::code::CHECK_FAILED);
    }
}

#[test]
fn one_direction_does_not_ask_for_the_other() {
    let (both, host) = want();
    let mut there = seen(&both);
    let ingress_only = Want {
        egress: None,
        ..both.clone()
    };
    there.ifb = None;
    assert_eq!(ingress_only.compare(&host, &there), Ok(()));
    let egress_only = Want {
        ingress: None,
        ..both.clone()
    };
    let mut there = seen(&both);
    there.host.remove(0);
    assert_eq!(egress_only.compare(&host, &there), Ok(()));
}

#[test]
fn the_kernels_default_is_no_root_of_anybodys() {
    let default = qdisc("noqueue", 0, ROOT);
    assert_eq!(root(std::slice::from_ref(&default)), None);
    assert!(!has_ingress(&[default]));
    let made = qdisc("fq", 0x80010000, ROOT);
    assert!(!is_our_tbf(root(std::slice::from_ref(&made)).unwrap()));
    assert!(has_ingress(&[qdisc("clsact", 0xffff_0000, INGRESS)]));
}
