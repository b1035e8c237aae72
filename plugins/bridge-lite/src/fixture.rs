//! Values that several unit tests start from.

use cni::{AddResult, Attachment, Command, Config, Env, IpConfig, Request, Route};
use net::Link;

/// A link of that kind, up, with nothing else set.
pub fn link(kind: &str) -> Link {
    Link {
        index: 7,
        name: "veth0".into(),
        mtu: 1500,
        kind: kind.into(),
        up: true,
        oper_up: true,
        tx_queue: 1000,
        ..Link::default()
    }
}

/// A request of the attachment n/c/eth0 with these keys after `name` and `type`, as `, "mtu": 1`.
pub fn request(keys: &str, args: &str) -> Request {
    let version = if keys.contains("cniVersion") {
        ""
    } else {
        r#", "cniVersion": "1.0.0""#
    };
    let config = format!(r#"{{"name": "n", "type": "bridge"{version}{keys}}}"#);
    request_of(config, args)
}

/// A request of the attachment n/c/eth0 with this configuration.
pub fn request_of(config: String, args: &str) -> Request {
    let lookup = |name: &str| match name {
        "CNI_CONTAINERID" => Some("c".to_owned()),
        "CNI_NETNS" => Some("/run/netns/pod".to_owned()),
        "CNI_IFNAME" => Some("eth0".to_owned()),
        "CNI_PATH" => Some("/opt/cni/bin".to_owned()),
        "CNI_ARGS" => Some(args.to_owned()),
        _ => None,
    };
    Request::new(
        Env::read(Command::Add, lookup).unwrap(),
        Config::parse(config.into_bytes()).unwrap(),
    )
}

/// The attachment of [`request`].
pub fn attachment() -> Attachment {
    Attachment::new("n", "c", "eth0")
}

/// An IPAM's result: each address with its gateway or an empty text, each route likewise.
pub fn ipam_result(ips: &[(&str, &str)], routes: &[(&str, &str)]) -> AddResult {
    let optional = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    AddResult {
        ips: ips
            .iter()
            .map(|(address, gateway)| IpConfig {
                address: address.parse().unwrap(),
                gateway: optional(gateway),
                interface: None,
            })
            .collect(),
        routes: routes
            .iter()
            .map(|(dst, gw)| Route {
                dst: dst.parse().unwrap(),
                gw: optional(gw),
                mtu: None,
                advmss: None,
                priority: None,
                table: None,
                scope: None,
            })
            .collect(),
        ..AddResult::default()
    }
}
