use serde_json::Value;

use super::*;
use crate::{Cluster, Document};

fn routes(text: &str) -> Result<Routes, String> {
    let document = Document::parse("c", text).unwrap();
    let plan = Plan::new(Cluster::new(document.read().unwrap()).unwrap()).unwrap();
    Routes::of(&plan).map_err(|fault| document.locate(fault).to_string())
}

fn written(text: &str, format: Format, place: usize) -> String {
    let routes = routes(text).unwrap();
    let device = routes.nodes()[0].device.clone();
    let written = Written::new(&routes, format, device.as_deref()).unwrap();
    written.without(place).concat()
}

const WORKERS: &str = "\
podSubnet: 10.200.0.0/16
device: eth0
cloudNetwork: kubernetes-the-hard-way
nodes:
- {name: worker-0, address: 10.240.0.20}
- {name: worker-1, address: 10.240.0.21}
- {name: worker-2, address: 10.240.0.22}
";

const DUAL: &str = "\
podSubnet: 10.200.0.0/16,fd00:200::/48
device: eth0
cloudNetwork: vpc
nodes:
- {name: a, address: '10.240.0.20,fd01::20'}
- {name: b, address: '10.240.0.21,fd01::21'}
";

#[test]
fn iproute2_of_each_node() {
    assert_eq!(
        written(WORKERS, Format::Iproute2, 0),
        "ip route replace 10.200.1.0/24 via 10.240.0.21 dev eth0\n\
         ip route replace 10.200.2.0/24 via 10.240.0.22 dev eth0\n"
    );
    assert_eq!(
        written(WORKERS, Format::Iproute2, 1),
        "ip route replace 10.200.0.0/24 via 10.240.0.20 dev eth0\n\
         ip route replace 10.200.2.0/24 via 10.240.0.22 dev eth0\n"
    );
    assert_eq!(
        written(&DUAL.replace("device: eth0\n", ""), Format::Iproute2, 0),
        "ip route replace 10.200.1.0/24 via 10.240.0.21\n\
         ip -6 route replace fd00:200:0:1::/64 via fd01::21\n"
    );
}

#[test]
fn files_of_network_managers() {
    assert_eq!(
        written(DUAL, Format::Netplan, 1),
        "network:
  version: 2
  ethernets:
    eth0:
      routes:
      - to: 10.200.0.0/24
        via: 10.240.0.20
      - to: \"fd00:200::/64\"
        via: \"fd01::20\"
"
    );
    assert_eq!(
        written(DUAL, Format::Networkd, 1),
        "[Route]\nDestination=10.200.0.0/24\nGateway=10.240.0.20\n\n\
         [Route]\nDestination=fd00:200::/64\nGateway=fd01::20\n\n"
    );
    assert_eq!(
        written(DUAL, Format::NetworkManager, 1),
        "connection=$(nmcli -g GENERAL.CONNECTION device show eth0)\n\
         : \"${connection:?none of NetworkManager has eth0}\"\n\
         nmcli connection modify \"$connection\" +ipv4.routes \"10.200.0.0/24 10.240.0.20\"\n\
         nmcli connection modify \"$connection\" +ipv6.routes \"fd00:200::/64 fd01::20\"\n\
         nmcli device reapply eth0\n"
    );
}

#[test]
fn netplan_and_json_are_well_formed_whoever_is_left_out() {
    for place in 0..4 {
        let others = if place < 3 { 2 } else { 3 };
        let netplan = written(WORKERS, Format::Netplan, place);
        let netplan = Document::parse("n", &netplan).unwrap();
        let listed = &netplan.value()["network"]["ethernets"]["eth0"]["routes"];
        assert_eq!(listed.as_array().unwrap().len(), others);
        let json: Value = serde_json::from_str(&written(WORKERS, Format::Json, place)).unwrap();
        assert_eq!(json.as_array().unwrap().len(), others);
        assert_ne!(json[0]["node"], format!("worker-{place}"));
    }
    let alone = "podSubnet: 10.200.0.0/16\ndevice: eth0\nnodes: [{name: a, address: 10.0.0.1}]";
    assert_eq!(written(alone, Format::Json, 0), "[]\n");
    assert!(written(alone, Format::Netplan, 0).ends_with("routes: []\n"));
    assert_eq!(written(alone, Format::NetworkManager, 0), "");
}

#[test]
fn the_cloud_has_every_range() {
    assert_eq!(
        written(WORKERS, Format::Gcloud, usize::MAX),
        "gcloud compute routes create kubernetes-route-10-200-0-0-24 --network \
         kubernetes-the-hard-way --next-hop-address 10.240.0.20 --destination-range 10.200.0.0/24
gcloud compute routes create kubernetes-route-10-200-1-0-24 --network \
         kubernetes-the-hard-way --next-hop-address 10.240.0.21 --destination-range 10.200.1.0/24
gcloud compute routes create kubernetes-route-10-200-2-0-24 --network \
         kubernetes-the-hard-way --next-hop-address 10.240.0.22 --destination-range 10.200.2.0/24
"
    );
    let dual = written(DUAL, Format::Gcloud, usize::MAX);
    let last = dual.lines().last().unwrap();
    let name = last.split_whitespace().nth(4).unwrap();
    assert_eq!(name, "kubernetes-route-fd00-200-0-1---64");
}

#[test]
fn the_own_range_is_never_among_them() {
    let routes = routes(DUAL).unwrap();
    let of_a: Vec<_> = routes
        .of_node("a")
        .map(|(node, route)| format!("{} {} {}", node.name, route.destination, route.via))
        .collect();
    assert_eq!(
        of_a,
        [
            "b 10.200.1.0/24 10.240.0.21",
            "b fd00:200:0:1::/64 fd01::21"
        ]
    );
}

#[test]
fn refusals() {
    let lacking = DUAL.replace(",fd01::21", "");
    assert_eq!(
        routes(&lacking).unwrap_err(),
        "c:6: nodes[1].address: no IPv6 address of node b, by which the routes to its pods \
         fd00:200:0:1::/64 must lead: expected one"
    );
    let routes = routes(WORKERS).unwrap();
    for format in [Format::Netplan, Format::NetworkManager] {
        assert_eq!(
            Written::new(&routes, format, None).unwrap_err().key,
            "device"
        );
    }
}
