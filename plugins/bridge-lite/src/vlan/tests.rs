use net::Filtering;

use super::*;
use crate::fixture::link;

fn vlans(access: u16, trunk: &[u16], preserve_default: bool) -> Vlans {
    Vlans {
        access: (access != 0).then_some(access),
        trunk: trunk.iter().copied().collect(),
        preserve_default,
    }
}

/// As the tool `bridge` lists them: `100 pvid untagged`, or a bare id where tagged.
fn said(vlans: &[Vlan]) -> Vec<String> {
    let words = vlans.iter().map(|vlan| match flags(vlan) {
        "tagged" => vlan.id.to_string(),
        flags => format!("{} {flags}", vlan.id),
    });
    words.collect()
}

#[test]
fn what_a_pod_s_port_is_a_member_of() {
    type Case<'a> = ((u16, &'a [u16], bool), u16, &'a [&'a str], Option<u16>);
    let table: [Case; 14] = [
        ((100, &[], false), 1, &["100 pvid untagged"], Some(1)),
        ((100, &[], false), 0, &["100 pvid untagged"], None),
        ((100, &[], false), 100, &["100 pvid untagged"], None),
        ((1, &[], false), 1, &["1 pvid untagged"], None),
        (
            (100, &[], true),
            1,
            &["1 untagged", "100 pvid untagged"],
            None,
        ),
        ((100, &[], true), 0, &["100 pvid untagged"], None),
        (
            (100, &[], true),
            200,
            &["100 pvid untagged", "200 untagged"],
            None,
        ),
        (
            (100, &[8, 7], false),
            1,
            &["7", "8", "100 pvid untagged"],
            Some(1),
        ),
        // Also where the trunk names what is untagged.
        ((7, &[7, 8], false), 1, &["7 pvid untagged", "8"], Some(1)),
        ((100, &[1], false), 1, &["1", "100 pvid untagged"], None),
        // Without `vlan` untagged frames stay in VLAN 1.
        ((0, &[7], false), 1, &["1 pvid untagged", "7"], None),
        ((0, &[7], false), 200, &["1 pvid untagged", "7"], Some(200)),
        (
            (0, &[7], true),
            200,
            &["1 pvid untagged", "7", "200 untagged"],
            None,
        ),
        // An empty list leaves the port as it comes.
        ((0, &[], false), 1, &[], None),
    ];
    for ((access, trunk, preserve), default, of, not) in table {
        let membership = vlans(access, trunk, preserve).of_pod(default);
        let case = format!("{access} {trunk:?} {preserve} {default}");
        assert_eq!(said(&membership.of), of, "{case}");
        assert_eq!(membership.not, not, "{case}");
    }
}

#[test]
fn a_gateway_s_port_is_in_its_vlan_alone() {
    for (preserve, default, not) in [(false, 1, Some(1)), (false, 0, None), (true, 1, None)] {
        let membership = vlans(100, &[7], preserve).of_gateway(100, default);
        assert_eq!(said(&membership.of), ["100 pvid untagged"]);
        assert_eq!(membership.not, not);
    }
    assert_eq!(vlans(1, &[], false).of_gateway(1, 1).not, None);
}

#[test]
fn what_check_calls_a_difference() {
    let wanted = vlans(100, &[7, 8], false).of_pod(1);
    let good = [Vlan::tagged(7), Vlan::tagged(8), Vlan::native(100)];
    wanted.compare("veth0", &good).unwrap();
    let others = [&good[..], &[Vlan::tagged(9)]].concat();
    wanted.compare("veth0", &others).unwrap();
    let changed = |at: usize, vlan: Vlan| {
        let mut vlans = good;
        vlans[at] = vlan;
        vlans.to_vec()
    };
    let not_pvid = Vlan {
        pvid: false,
        ..Vlan::native(100)
    };
    let untagged = Vlan {
        untagged: true,
        ..Vlan::tagged(7)
    };
    for (is, says) in [
        (good[..2].to_vec(), "port veth0 is not in VLAN 100"),
        (good[1..].to_vec(), "port veth0 is not in VLAN 7"),
        (
            changed(2, not_pvid),
            "port veth0 is in VLAN 100 untagged, not pvid untagged",
        ),
        (
            changed(2, Vlan::tagged(100)),
            "port veth0 is in VLAN 100 tagged, not pvid untagged",
        ),
        (
            changed(0, untagged),
            "port veth0 is in VLAN 7 untagged, not tagged",
        ),
        (
            [&good[..], &[Vlan::tagged(1)]].concat(),
            "port veth0 is in VLAN 1, the bridge's default, which ADD has taken it out of",
        ),
    ] {
        let error = wanted.compare("veth0", &is).unwrap_err();
        assert_eq!((error.code, error.msg.as_str()), (code::CHECK_FAILED, says));
    }
    // The default VLAN that should be kept must be there.
    let kept = vlans(100, &[], true).of_pod(1);
    kept.compare("veth0", &[Vlan::native(100)]).unwrap_err();
}

#[test]
fn a_bridge_that_does_not_filter_is_refused_by_key_and_value() {
    let bridge = |vlans| Link {
        name: "br0".into(),
        vlans,
        ..link("bridge")
    };
    let filtering = |on| {
        Some(Filtering {
            on,
            default_pvid: 1,
        })
    };
    let config = |vlans| BridgeConfig {
        vlans,
        ..BridgeConfig::default()
    };
    let tagged = config(Some(vlans(0, &[7, 8], false)));
    let untagged = config(Some(vlans(100, &[], false)));
    filters(&config(None), &bridge(None)).unwrap();
    filters(&config(None), &bridge(filtering(false))).unwrap();
    filters(&untagged, &bridge(filtering(true))).unwrap();
    for (config, vlans, code, begin) in [
        (
            &untagged,
            filtering(false),
            103,
            r#"vlan: 100: bridge "br0" does not filter by VLAN"#,
        ),
        (
            &tagged,
            filtering(false),
            103,
            r#"vlanTrunk: 2 VLANs: bridge "br0" does not filter"#,
        ),
        (
            &untagged,
            None,
            100,
            "vlan: 100: this kernel cannot filter by VLAN",
        ),
    ] {
        let error = filters(config, &bridge(vlans)).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.msg.starts_with(begin), "{error}");
        assert!(error.details.contains("allowed"), "{error}");
    }
}
