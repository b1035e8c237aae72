use std::cell::RefCell;
use std::net::Ipv6Addr;

use ipnet::{Ipv4Net, Ipv6Net};

use super::*;
use crate::Owner;
use crate::hostport::Protocol;
use crate::nft::read;

const OWNER: Owner = Owner {
    network: "mynet",
    container_id: "cont1",
    ifname: "eth0",
};

const V4_ADDRESS: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 1, 2, 2), 24));
const V6_ADDRESS: IpNet = IpNet::V6(Ipv6Net::new_assert(
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    64,
));

fn mapping(host_ip: Option<&str>, host_port: u16, protocol: Protocol) -> Mapping {
    Mapping {
        host_port,
        container_port: 80,
        protocol,
        host_ip: host_ip.map(|ip| ip.parse().unwrap()),
    }
}

fn with_ports<'a>(mappings: &'a [Mapping], run: impl FnOnce(&mut HostPorts<'a>)) {
    run(&mut HostPorts {
        mappings,
        addresses: const { &[V4_ADDRESS, V6_ADDRESS] },
        snat: true,
        masq_all: false,
        mark: Mark::Bit(13),
        conditions_v4: &[],
        conditions_v6: &[],
    })
}

fn texts(ports: &HostPorts, family: Family, is_rule: bool) -> Vec<String> {
    let want = want(&Tag::of(OWNER), ports, family, |_| is_rule).unwrap();
    let elements = want.elements.into_iter().skip(1);
    elements
        .map(|element| format!("{} {}", element.entry.set, element.text))
        .chain(
            want.rules
                .into_iter()
                .map(|rule| format!("{} {}", rule.chain, rule.part.text)),
        )
        .collect()
}

#[test]
fn a_port_is_an_element_and_one_for_each_source() {
    let mappings = [
        mapping(None, 8080, Protocol::Tcp),
        mapping(Some("192.0.2.1"), 53, Protocol::Udp),
        mapping(Some("::"), 54, Protocol::Sctp),
        mapping(Some("::1"), 55, Protocol::Sctp),
        // Of two for one port the first wins.
        Mapping {
            container_port: 81,
            ..mapping(Some("0.0.0.0"), 8080, Protocol::Tcp)
        },
    ];
    with_ports(&mappings, |ports| {
        assert_eq!(
            texts(ports, Family::V4, false),
            [
                "ports tcp . 8080 : 10.1.2.2 . 80",
                "sources tcp . 8080 : jump from_10.1.2.0/24_0x2000",
                "address_ports 192.0.2.1 . udp . 53 : 10.1.2.2 . 80",
                "address_sources 192.0.2.1 . udp . 53 : jump from_10.1.2.0/24_0x2000",
            ]
        );
        assert_eq!(
            texts(ports, Family::V6, false),
            [
                "ports tcp . 8080 : fd00::2 . 80",
                "sources tcp . 8080 : jump from_fd00__/64_0x2000",
                "ports sctp . 54 : fd00::2 . 80",
                "sources sctp . 54 : jump from_fd00__/64_0x2000",
            ]
        );
        ports.masq_all = true;
        let of_anywhere = "sources tcp . 8080 : jump from_anywhere_0x2000";
        assert_eq!(texts(ports, Family::V6, false)[1], of_anywhere);
        ports.snat = false;
        assert_eq!(texts(ports, Family::V4, false).len(), 2);
    });
}

#[test]
fn what_comes_from_the_pod_s_network_or_from_the_node_itself_is_marked() {
    with_ports(&[], |ports| {
        let tag = Tag::of(OWNER);
        let chains = |ports: &HostPorts, family| {
            let want = want(&tag, ports, family, |_| false).unwrap();
            let chains = want.table.chains.into_iter().skip(5);
            let text = |chain: Chain| {
                let rules = chain.rules.into_iter().map(|part| part.text);
                format!("{}: {}", chain.name, rules.collect::<Vec<_>>().join("; "))
            };
            chains.map(text).collect::<Vec<_>>()
        };
        let mark = "meta mark set meta mark | 0x00002000";
        let masquerade =
            "masquerade_0x2000: meta mark & 0x00002000 == 0x00002000 masquerade".to_owned();
        assert_eq!(
            chains(ports, Family::V4),
            [
                format!(
                    "from_10.1.2.0/24_0x2000: ip saddr 10.1.2.0/24 {mark}; ip saddr 127.0.0.1 {mark}"
                ),
                masquerade.clone(),
            ]
        );
        assert_eq!(
            chains(ports, Family::V6),
            [
                format!("from_fd00__/64_0x2000: ip6 saddr fd00::/64 {mark}"),
                masquerade.clone(),
            ]
        );
        ports.masq_all = true;
        let expected = [format!("from_anywhere_0x2000: {mark}"), masquerade];
        assert_eq!(chains(ports, Family::V4), expected);
        ports.snat = false;
        assert_eq!(chains(ports, Family::V4), [""; 0]);
    });
}

#[test]
fn what_does_not_fit_into_a_map_is_rules() {
    let mappings = [mapping(Some("192.0.2.1"), 8080, Protocol::Tcp)];
    let words = ["iifname eth0".to_owned()];
    with_ports(&mappings, |ports| {
        let dport = "ip daddr 192.0.2.1 tcp dport 8080";
        assert_eq!(
            texts(ports, Family::V4, true),
            [
                format!("duplicates {dport} jump from_10.1.2.0/24_0x2000"),
                format!("duplicates {dport} dnat to 10.1.2.2:80"),
            ]
        );
        ports.conditions_v4 = &words;
        ports.masq_all = true;
        for is_rule in [true, false] {
            assert_eq!(
                texts(ports, Family::V4, is_rule),
                [
                    format!("conditions iifname \"eth0\" {dport} jump from_anywhere_0x2000"),
                    format!("conditions iifname \"eth0\" {dport} dnat to 10.1.2.2:80"),
                ]
            );
        }
    });
}

#[test]
fn a_port_is_taken_where_another_has_its_key() {
    let mappings = [
        mapping(None, 8080, Protocol::Tcp),
        mapping(Some("192.0.2.1"), 8080, Protocol::Tcp),
    ];
    with_ports(&mappings, |ports| {
        let tag = Tag::of(OWNER);
        let elements = want(&tag, ports, Family::V4, |_| false).unwrap().elements;
        let entries: Vec<_> = elements.into_iter().map(|element| element.entry).collect();
        assert_eq!(entries[1].key, [6, 0, 0, 0, 0x1f, 0x90, 0, 0]);
        assert_eq!(entries[3].key, [192, 0, 2, 1, 6, 0, 0, 0, 0x1f, 0x90, 0, 0]);
        let is_taken = |entry: &Entry| {
            let listing = Listing {
                entries: vec![entry.clone()],
                ..Listing::default()
            };
            let others = listing.places_of_others(&tag);
            let found = RefCell::new(Vec::new());
            want(&tag, ports, Family::V4, |forward| {
                found.borrow_mut().push(forward.is_taken(&others));
                false
            });
            found.into_inner()
        };
        let other = Tag::of(Owner {
            container_id: "other",
            ..OWNER
        });
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(is_taken(entry), [false, false]);
            let others = Entry {
                comment: other.comment.clone(),
                ..entry.clone()
            };
            let expected = [
                [false; 2],
                [true, false],
                [true, false],
                [false, true],
                [false, true],
            ];
            assert_eq!(is_taken(&others), expected[index]);
        }
    });
}

#[test]
fn elements_and_rules_are_read_back() {
    let mappings = [
        mapping(None, 8080, Protocol::Tcp),
        mapping(Some("192.0.2.1"), 53, Protocol::Udp),
        mapping(Some("2001:db8::1"), 9, Protocol::Sctp),
    ];
    with_ports(&mappings, |ports| {
        for (family, expected) in [(Family::V4, [0, 1]), (Family::V6, [0, 2])] {
            let pod = ports.address(family).unwrap().addr();
            let expected = expected.map(|index| (mappings[index], pod));
            let tag = Tag::of(OWNER);
            let want = want(&tag, ports, family, |_| false).unwrap();
            let read: Vec<_> = want
                .elements
                .iter()
                .filter_map(|e| read::entry(&e.entry))
                .collect();
            assert_eq!(read, expected);
            let want = super::want(&tag, ports, family, |_| true).unwrap();
            let rules = want.rules.iter();
            let read: Vec<_> = rules
                .filter_map(|rule| read::rule(&rule.part.expressions))
                .collect();
            assert_eq!(read, expected);
        }
    });
}

#[test]
fn what_is_no_port_is_not_read_as_one() {
    for set in [PORTS, ADDRESS_PORTS, SOURCES, "x"] {
        for length in 0..40 {
            let mut entry = Entry {
                set: set.to_owned(),
                key: vec![0; length],
                value: None,
                comment: String::new(),
            };
            assert_eq!(read::entry(&entry), None);
            entry.value = Some(DataAttribute::Value(vec![0; length]));
            assert_eq!(read::entry(&entry), None);
        }
    }
    assert_eq!(read::rule(&expr::masquerade().expressions), None);
    assert_eq!(
        read::rule(&expr::port_is(Protocol::Tcp, 1).expressions),
        None
    );
}
