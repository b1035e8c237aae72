//! Any result, told in any version and read again.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn net() -> impl Strategy<Value = IpNet> {
    (any::<IpAddr>(), 0..=128_u8).prop_map(|(ip, length)| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        IpNet::new(ip, length.min(most)).unwrap()
    })
}

/// Texts that would end a string or a line, too.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,15}", "\\PC{0,8}", "[\"\\\\\n\0]{0,3}"]
}

prop_compose! {
    fn interface()(
        name in text(), mac in text(), mtu in option::of(any::<u32>()),
        sandbox in text(), socket_path in text(), pci_id in text(),
    ) -> Interface {
        Interface { name, mac, mtu, sandbox, socket_path, pci_id }
    }
}

prop_compose! {
    fn address()(
        address in net(), gateway in option::of(any::<IpAddr>()), interface in option::of(-1..5_i64),
    ) -> IpConfig {
        IpConfig { address, gateway, interface }
    }
}

prop_compose! {
    fn route()(
        dst in net(), gw in option::of(any::<IpAddr>()), mtu in option::of(any::<u32>()),
        advmss in option::of(any::<u32>()), priority in option::of(any::<u32>()),
        table in option::of(any::<u32>()), scope in option::of(any::<u8>()),
    ) -> Route {
        Route { dst, gw, mtu, advmss, priority, table, scope }
    }
}

prop_compose! {
    fn dns()(
        nameservers in vec(text(), 0..3), domain in text(),
        search in vec(text(), 0..3), options in vec(text(), 0..3),
    ) -> Dns {
        Dns { nameservers, domain, search, options }
    }
}

prop_compose! {
    fn result()(
        interfaces in vec(interface(), 0..4), ips in vec(address(), 0..4),
        routes in vec(route(), 0..4), dns in dns(),
    ) -> AddResult {
        AddResult { interfaces, ips, routes, dns }
    }
}

/// As a runtime reads it; `None` where the version cannot tell it.
fn printed(result: &AddResult, version: Version) -> Option<Value> {
    let told = result.to_json(version).ok()?;
    Some(serde_json::from_str(&told.to_string()).unwrap())
}

proptest! {
    #[test]
    fn the_newest_version_tells_all(result in result()) {
        let told = printed(&result, Version::V1_1_0).unwrap();
        prop_assert_eq!(AddResult::from_json(&told, Version::V1_1_0).unwrap(), result);
    }

    /// There and back: each version tells again what it told, and nothing comes that was not there.
    #[test]
    fn every_version_tells_the_same_again(result in result()) {
        for version in Version::ALL {
            let Some(told) = printed(&result, *version) else {
                continue;
            };
            let read = AddResult::from_json(&told, *version).unwrap();
            prop_assert_eq!(printed(&read, *version), Some(told));
            let ip = |ip: &IpConfig| (ip.address, ip.gateway);
            let ips: Vec<_> = result.ips.iter().map(ip).collect();
            prop_assert!(read.ips.iter().all(|one| ips.contains(&ip(one))));
            let route = |route: &Route| (route.dst, route.gw);
            let routes: Vec<_> = result.routes.iter().map(route).collect();
            prop_assert!(read.routes.iter().all(|one| routes.contains(&route(one))));
        }
    }
}
