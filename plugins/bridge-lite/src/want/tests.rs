use super::*;
use crate::fixture::{attachment, ipam_result, link};
use crate::sysctls::Need;

fn config() -> BridgeConfig {
    BridgeConfig {
        bridge: "cni0".into(),
        layer3: true,
        container_up: true,
        ..BridgeConfig::default()
    }
}

fn gateway() -> BridgeConfig {
    BridgeConfig {
        is_gateway: true,
        ..config()
    }
}

fn default_gateway() -> BridgeConfig {
    BridgeConfig {
        is_default_gateway: true,
        ..gateway()
    }
}

fn want<'a>(
    config: &'a BridgeConfig,
    ips: &[(&str, &str)],
    routes: &[(&str, &str)],
) -> Result<Want<'a>, Error> {
    Want::links(config, &attachment()).with_ipam(ipam_result(ips, routes))
}

/// The wanted routes as `destination via gateway`.
fn routes(want: &Want) -> Vec<String> {
    let routes = want.pod_routes(2);
    let text = routes.iter().map(|route| match route.gateway {
        Some(gateway) => format!("{} via {gateway}", route.dst),
        None => route.dst.to_string(),
    });
    text.collect()
}

fn texts(nets: &[IpNet]) -> Vec<String> {
    nets.iter().map(ToString::to_string).collect()
}

#[test]
fn a_gateway_is_the_first_address_of_the_network_unless_the_ipam_gives_one() {
    let table = [
        ("10.1.2.3/16", "", "10.1.0.1/16"),
        ("10.1.2.3/16", "10.1.9.9", "10.1.9.9/16"),
        ("10.1.2.3/32", "", "10.1.2.4/32"),
        ("fd00::5/64", "", "fd00::1/64"),
    ];
    for (address, given, expected) in table {
        let config = gateway();
        let want = want(&config, &[(address, given)], &[]).unwrap();
        assert_eq!(texts(&want.gateway_addresses()), [expected], "{address}");
    }
}

#[test]
fn without_a_gateway_the_bridge_has_no_address() {
    let config = config();
    let want = want(&config, &[("10.1.2.3/16", "10.1.0.1")], &[]).unwrap();
    assert!(want.gateway_addresses().is_empty());
    let accept_ra = [
        "net/ipv6/conf/cni0/accept_ra".to_owned(),
        format!("net/ipv6/conf/{}/accept_ra", want.identity.name),
    ];
    let paths: Vec<_> = want.node_sysctls().into_iter().map(|s| s.path).collect();
    assert_eq!(paths, accept_ra);
}

#[test]
fn no_address_follows_the_last_one() {
    let config = gateway();
    let error = want(&config, &[("255.255.255.255/32", "")], &[]).unwrap_err();
    assert_eq!(
        error.msg,
        "no gateway can be derived from address 255.255.255.255/32"
    );
}

#[test]
fn each_family_forwards_only_where_it_has_a_gateway() {
    let forwarding = |ips: &[(&str, &str)]| {
        let config = gateway();
        let want = want(&config, ips, &[]).unwrap();
        let required = want.node_sysctls().into_iter().filter_map(|sysctl| {
            assert_eq!(
                sysctl.value == "1",
                matches!(sysctl.need, Need::Required(_))
            );
            (sysctl.value == "1").then_some(sysctl.path)
        });
        required.collect::<Vec<_>>()
    };
    let (v4, v6) = (("10.1.2.3/16", ""), ("fd00::5/64", ""));
    let of_v4 = ["net/ipv4/ip_forward", "net/ipv4/conf/cni0/forwarding"];
    assert_eq!(forwarding(&[v4]), of_v4);
    assert_eq!(forwarding(&[v6]), ["net/ipv6/conf/all/forwarding"]);
    assert_eq!(forwarding(&[v4, v6]).len(), 3);
}

#[test]
fn one_bridge_address_for_two_pod_addresses_of_a_network() {
    let config = gateway();
    let want = want(&config, &[("10.1.0.2/16", ""), ("10.1.0.3/16", "")], &[]).unwrap();
    assert_eq!(texts(&want.gateway_addresses()), ["10.1.0.1/16"]);
}

#[test]
fn a_route_without_gateway_takes_that_of_its_family() {
    let config = config();
    let ips = [("10.1.0.2/16", "10.1.0.1"), ("fd00::2/64", "fd00::1")];
    let given = [
        ("0.0.0.0/0", ""),
        ("192.168.7.9/24", "10.1.0.7"),
        ("fd99::/64", ""),
    ];
    let want = want(&config, &ips, &given).unwrap();
    let expected = [
        "0.0.0.0/0 via 10.1.0.1",
        "192.168.7.0/24 via 10.1.0.7",
        "fd99::/64 via fd00::1",
    ];
    assert_eq!(routes(&want), expected);
    // The result tells them as the IPAM did.
    assert_eq!(want.routes, ipam_result(&[], &given).routes);
}

#[test]
fn a_route_for_the_link_alone_takes_no_gateway() {
    let ips = [("10.1.0.2/16", "10.1.0.1"), ("fd00::2/64", "fd00::1")];
    let mut given = ipam_result(&ips, &[("10.9.0.0/16", ""), ("fd99::/64", "")]);
    given
        .routes
        .iter_mut()
        .for_each(|route| route.scope = Some(253));
    let config = config();
    let want = Want::links(&config, &attachment())
        .with_ipam(given)
        .unwrap();
    // IPv6 knows no scopes of routes.
    assert_eq!(routes(&want), ["10.9.0.0/16", "fd99::/64 via fd00::1"]);
}

#[test]
fn what_no_route_can_have_is_refused_by_its_key() {
    let mut given = ipam_result(&[("10.1.0.2/16", "")], &[("10.9.0.0/16", "")]);
    given.routes[0].mtu = Some(70_000);
    let config = config();
    let error = Want::links(&config, &attachment())
        .with_ipam(given)
        .unwrap_err();
    assert_eq!(error.code, 7);
    assert_eq!(
        error.msg,
        "ipam.routes[].mtu: 70000 must be 0, or 68 to 65520"
    );
    assert_eq!(error.details, "the route to 10.9.0.0/16");
}

#[test]
fn a_route_without_any_gateway_leads_to_the_link() {
    let config = config();
    let want = want(&config, &[("10.1.0.2/16", "")], &[("10.9.0.0/16", "")]).unwrap();
    assert_eq!(routes(&want), ["10.9.0.0/16"]);
}

#[test]
fn the_default_route_of_each_family_is_there_once() {
    let ips = [("10.1.0.2/16", ""), ("10.2.0.2/16", ""), ("fd00::2/64", "")];
    let (v4, v6) = ("0.0.0.0/0 via 10.1.0.1", "::/0 via fd00::1");
    let config = default_gateway();
    let with = |given: &[(&str, &str)]| routes(&want(&config, &ips, given).unwrap());
    assert_eq!(with(&[]), [v4, v6]);
    assert_eq!(with(&[("0.0.0.0/0", "")]), [v4, v6]);
    assert_eq!(
        with(&[("::/0", "fd00::9")]),
        ["::/0 via fd00::9", "0.0.0.0/0 via 10.1.0.1"]
    );
    assert_eq!(with(&[("10.0.0.0/8", "")]).len(), 3);
}

#[test]
fn a_default_route_of_another_table_is_not_the_pod_s() {
    let config = default_gateway();
    let mut ipam = ipam_result(&[("10.1.0.2/16", "")], &[("0.0.0.0/0", "")]);
    ipam.routes[0].table = Some(100);
    let want = Want::links(&config, &attachment()).with_ipam(ipam).unwrap();
    let tables: Vec<_> = want.pod_routes(2).iter().map(|route| route.table).collect();
    assert_eq!(tables, [Some(100), None]);
}

#[test]
fn zeros_of_a_route_stand_for_the_kernel_s_defaults() {
    let config = config();
    let mut ipam = ipam_result(&[("10.1.0.2/16", "")], &[("10.9.0.0/16", "")]);
    ipam.routes[0].priority = Some(0);
    ipam.routes[0].table = Some(0);
    ipam.routes[0].mtu = Some(1300);
    let want = Want::links(&config, &attachment()).with_ipam(ipam).unwrap();
    let expected = Route {
        mtu: Some(1300),
        ..Route::new("10.9.0.0/16".parse().unwrap(), None, 2)
    };
    assert_eq!(want.pod_routes(2), [expected]);
}

#[test]
fn what_the_kernel_would_refuse_is_refused_before() {
    let config = BridgeConfig {
        mtu: Some(1279),
        ..config()
    };
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let table: [(Pairs, Pairs, &str); 4] = [
        (&[], &[], "IPAM plugin returned missing IP config"),
        (
            &[("10.1.0.2/16", "fd00::1")],
            &[],
            "gateway fd00::1 and address 10.1.0.2/16 are",
        ),
        (
            &[("10.1.0.2/16", "")],
            &[("fd00::/64", "10.1.0.1")],
            "gateway 10.1.0.1 and route destination fd00::/64 are",
        ),
        (&[("fd00::2/64", "")], &[], "mtu: 1279"),
    ];
    for (ips, routes, start) in table {
        let error = want(&config, ips, routes).unwrap_err();
        assert!(error.msg.starts_with(start), "{error}");
    }
    assert!(want(&config, &[("10.1.0.2/16", "")], &[]).is_ok());
}

#[test]
fn an_address_that_no_interface_can_have_is_refused_before() {
    let table = [
        (
            ("::5/0", ""),
            "no bridge can have gateway ::1 of address ::5/0",
        ),
        (
            ("10.1.0.2/16", "0.0.0.0"),
            "no bridge can have gateway 0.0.0.0 of",
        ),
        (("fd00::2/64", "::"), "no bridge can have gateway :: of"),
        (
            ("fd00::2/64", "ff02::1"),
            "no bridge can have gateway ff02::1 of",
        ),
        (
            ("::1/64", "fd00::1"),
            "no interface can have address ::1/64",
        ),
        (
            ("0.0.0.0/24", "10.1.0.1"),
            "no interface can have address 0.0.0.0/24",
        ),
        (
            ("ff05::2/64", "fd00::1"),
            "no interface can have address ff05::2/64",
        ),
    ];
    for (ip, start) in table {
        let config = gateway();
        let error = want(&config, &[ip], &[]).unwrap_err();
        assert!(error.msg.starts_with(start), "{error}");
        assert_eq!(error.code, cni::code::INVALID_CONFIG);
    }
    // A gateway elsewhere is none of the bridge's.
    let config = config();
    want(&config, &[("fd00::2/64", "::1")], &[]).unwrap();
    let config = gateway();
    want(&config, &[("::5/0", "::4"), ("0.0.0.9/0", "")], &[]).unwrap();
}

#[test]
fn a_gateway_says_where_it_comes_from() {
    let (of_bridge, config) = (gateway(), config());
    let ips = [("10.1.0.2/32", ""), ("fd00::2/64", "fd09::1")];
    let made = want(&of_bridge, &ips, &[("10.9.0.0/16", "10.7.0.1")]).unwrap();
    for (gateway, expected) in [
        (
            "10.1.0.3",
            "isGateway: the first address of the network of 10.1.0.2/32",
        ),
        ("fd09::1", "gateway of fd00::2/64, as the IPAM gave it"),
        ("10.7.0.1", "ipam.routes[].gw"),
    ] {
        assert_eq!(made.source_of(gateway.parse().unwrap()), expected);
    }
    let given = want(&config, &[("10.1.0.2/32", "10.1.0.3")], &[]).unwrap();
    let source = given.source_of("10.1.0.3".parse().unwrap());
    assert_eq!(source, "gateway of 10.1.0.2/32, as the IPAM gave it");
}

#[test]
fn resolver_settings_of_the_configuration_replace_the_ipam_s_wholly() {
    let ipam = AddResult {
        dns: Dns {
            domain: "ipam.example".into(),
            ..Dns::default()
        },
        ..ipam_result(&[("10.1.0.2/16", "")], &[])
    };
    let own = Dns {
        nameservers: vec!["10.0.0.53".into()],
        ..Dns::default()
    };
    let dns = |dns: Option<Dns>| {
        let config = BridgeConfig { dns, ..config() };
        let want = Want::links(&config, &attachment());
        want.with_ipam(ipam.clone()).unwrap().dns
    };
    assert_eq!(dns(None), ipam.dns);
    assert_eq!(dns(Some(own.clone())), own);
    assert_eq!(dns(Some(Dns::default())), Dns::default());
}

#[test]
fn the_result_tells_bridge_host_veth_and_pod() {
    let config = gateway();
    let want = want(&config, &[("10.1.0.2/16", "")], &[("0.0.0.0/0", "")]).unwrap();
    let named = |name: &str| Link {
        name: name.into(),
        ..link("veth")
    };
    let (bridge, port, pod) = (named("cni0"), named("veth1"), named("eth0"));
    let of = |version| {
        let want = want.clone();
        want.result([&bridge, &port, &pod], None, "/run/netns/pod", version)
    };
    let result = of(Version::V1_1_0);
    let told = result.interfaces.iter();
    let told: Vec<_> = told
        .map(|i| (i.name.as_str(), i.sandbox.as_str()))
        .collect();
    let expected = [("cni0", ""), ("veth1", ""), ("eth0", "/run/netns/pod")];
    assert_eq!(told, expected);
    assert_eq!(result.interfaces[2].mtu, Some(1500));
    assert_eq!(of(Version::V1_0_0).interfaces[2].mtu, None);
    assert_eq!(result.ips[0].interface, Some(2));
    assert_eq!(result.ips[0].gateway, Some("10.1.0.1".parse().unwrap()));
}

#[test]
fn check_wants_what_add_told() {
    let config = default_gateway();
    let made = want(&config, &[("10.1.0.2/16", "")], &[]).unwrap();
    let (addresses, gateways, kernel) = (
        made.pod_addresses(),
        made.gateway_addresses(),
        made.pod_routes(2),
    );
    let pod = Link {
        name: "eth0".into(),
        ..link("veth")
    };
    let links = [&link("bridge"), &link("veth"), &pod];
    let mut told = made.result(links, None, "/run/netns/pod", Version::V1_0_0);
    // Another interface's address is none of ours.
    told.ips.push(IpConfig {
        interface: Some(1),
        ..ipam_result(&[("10.7.0.2/16", "")], &[]).ips[0].clone()
    });
    let want = Want::links(&config, &attachment())
        .with_previous(&told)
        .unwrap();
    assert_eq!(want.pod_addresses(), addresses);
    assert_eq!(want.gateway_addresses(), gateways);
    assert_eq!(want.pod_routes(2), kernel);
    // A default route that a later plugin took away is not wanted back.
    told.routes.clear();
    let want = Want::links(&config, &attachment())
        .with_previous(&told)
        .unwrap();
    assert!(want.pod_routes(2).is_empty());
}

#[test]
fn layer_2_wants_links_only() {
    let config = BridgeConfig {
        layer3: false,
        ..gateway()
    };
    let mut previous = ipam_result(&[("10.1.0.2/16", "10.1.0.1")], &[("0.0.0.0/0", "")]);
    previous.ips[0].interface = None;
    let want = Want::links(&config, &attachment());
    let want = want.with_previous(&previous).unwrap();
    assert!(want.pod_addresses().is_empty());
    assert!(want.gateway_addresses().is_empty());
    assert!(want.pod_routes(2).is_empty());
    assert!(want.pod_sysctls().is_empty());
}

#[test]
fn an_unspecified_gateway_is_none() {
    let config = config();
    let given = [("0.0.0.0/0", "0.0.0.0"), ("::/0", "::")];
    let ips = [("10.1.2.3/16", "10.1.0.1"), ("fd00::5/64", "fd00::1")];
    let want = want(&config, &ips, &given).unwrap();
    assert_eq!(routes(&want), ["0.0.0.0/0", "::/0"]);
}
