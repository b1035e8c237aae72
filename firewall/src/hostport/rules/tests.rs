use super::*;

fn rules(owner: Owner, ports: &HostPorts, family: Family) -> Option<RuleSet> {
    super::rules(&names::chain(PREFIX, owner), owner, ports, family)
}

const OWNER: Owner = Owner {
    network: "test",
    container_id: "icee6giejonei6so",
    ifname: "eth0",
};
const CHAIN: &str = "CNI-DN-022110f36292712c8bb50";

fn mapping(host_port: u16, container_port: u16, protocol: Protocol, host_ip: &str) -> Mapping {
    Mapping {
        host_port,
        container_port,
        protocol,
        host_ip: host_ip.parse().ok(),
    }
}

fn ports<'a>(mappings: &'a [Mapping], addresses: &'a [IpNet]) -> HostPorts<'a> {
    HostPorts {
        mappings,
        addresses,
        snat: true,
        masq_all: false,
        mark: Mark::Bit(13),
        conditions_v4: &[],
        conditions_v6: &[],
    }
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The lines, the chain's long name shortened.
fn lines(rules: &[Rule]) -> Vec<String> {
    let line = |rule: &Rule| rule.append().replace(CHAIN, "CHAIN");
    rules.iter().map(line).collect()
}

#[test]
fn one_pod_of_ipv4() {
    let mappings = [
        mapping(8080, 80, Protocol::Tcp, ""),
        mapping(53, 5353, Protocol::Udp, "0.0.0.0"),
        mapping(8083, 83, Protocol::Tcp, "192.168.77.1"),
        mapping(8084, 84, Protocol::Tcp, "fd00::1"),
    ];
    let set = rules(
        OWNER,
        &ports(&mappings, &nets(&["10.0.0.2/24"])),
        Family::V4,
    )
    .unwrap();
    assert_eq!(set.chain, CHAIN);
    assert_eq!(
        lines(&set.entries),
        [
            "-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment \
             \"dnat name: \\\"test\\\" id: \\\"icee6giejonei6so\\\"\" \
             -m multiport --dports 8080,8083,8084 -j CHAIN",
            "-A CNI-HOSTPORT-DNAT -p udp -m comment --comment \
             \"dnat name: \\\"test\\\" id: \\\"icee6giejonei6so\\\"\" \
             -m multiport --dports 53 -j CHAIN",
        ]
    );
    assert_eq!(
        lines(&set.own),
        [
            "-A CHAIN -s 10.0.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.2:80",
            "-A CHAIN -s 10.0.0.0/24 -p udp -m udp --dport 53 -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -s 127.0.0.1/32 -p udp -m udp --dport 53 -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -p udp -m udp --dport 53 -j DNAT --to-destination 10.0.0.2:5353",
            "-A CHAIN -s 10.0.0.0/24 -d 192.168.77.1/32 -p tcp -m tcp --dport 8083 \
             -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -s 127.0.0.1/32 -d 192.168.77.1/32 -p tcp -m tcp --dport 8083 \
             -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -d 192.168.77.1/32 -p tcp -m tcp --dport 8083 \
             -j DNAT --to-destination 10.0.0.2:83",
        ]
    );
    assert!(!set.foreign_words);
}

#[test]
fn ipv6_has_brackets_and_no_localhost() {
    let mappings = [
        mapping(8080, 80, Protocol::Sctp, ""),
        mapping(8081, 81, Protocol::Tcp, "::1"),
        mapping(8082, 82, Protocol::Tcp, "fd01::5"),
        mapping(8083, 83, Protocol::Tcp, "10.0.0.1"),
    ];
    let addresses = nets(&["10.0.0.2/24", "fd00::2/64"]);
    let set = rules(OWNER, &ports(&mappings, &addresses), Family::V6).unwrap();
    assert_eq!(
        lines(&set.own),
        [
            "-A CHAIN -s fd00::/64 -p sctp -m sctp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -p sctp -m sctp --dport 8080 -j DNAT --to-destination [fd00::2]:80",
            "-A CHAIN -s fd00::/64 -d fd01::5/128 -p tcp -m tcp --dport 8082 \
             -j CNI-HOSTPORT-SETMARK",
            "-A CHAIN -d fd01::5/128 -p tcp -m tcp --dport 8082 \
             -j DNAT --to-destination [fd00::2]:82",
        ]
    );
    let ipv4_only = ports(&mappings, addresses.get(..1).unwrap());
    assert_eq!(rules(OWNER, &ipv4_only, Family::V6), None);
}

#[test]
fn shared_rules_in_their_places() {
    let mappings = [mapping(8080, 80, Protocol::Tcp, "")];
    let addresses = nets(&["10.0.0.2/24"]);
    let mut ports = ports(&mappings, &addresses);
    ports.mark = Mark::Bit(0);
    let set = rules(OWNER, &ports, Family::V4).unwrap();
    assert_eq!(
        set.shared.chains,
        [
            "CNI-HOSTPORT-SETMARK",
            "CNI-HOSTPORT-MASQ",
            "CNI-HOSTPORT-DNAT"
        ]
    );
    let shared: Vec<_> = set
        .shared
        .rules
        .iter()
        .map(|(rule, _)| rule.append())
        .collect();
    assert_eq!(
        shared,
        [
            "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" \
             -j MARK --set-xmark 0x1/0x1",
            "-A CNI-HOSTPORT-MASQ -m mark --mark 0x1/0x1 -j MASQUERADE",
            "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" \
             -j CNI-HOSTPORT-MASQ",
            "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
        ]
    );
    let first = set
        .shared
        .rules
        .iter()
        .filter(|(_, place)| *place == Place::First);
    assert_eq!(first.count(), 1);
    ports.mark = Mark::Bit(31);
    let set = rules(OWNER, &ports, Family::V4).unwrap();
    assert!(set.shared.rules.iter().any(|(rule, _)| {
        rule.append() == "-A CNI-HOSTPORT-MASQ -m mark --mark 0x80000000/0x80000000 -j MASQUERADE"
    }));
}

#[test]
fn masq_all_snat_off_and_another_chain() {
    let mappings = [mapping(8080, 80, Protocol::Tcp, "")];
    let addresses = nets(&["10.0.0.2/24"]);
    let dnat = "-A CHAIN -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.2:80";

    let mut all = ports(&mappings, &addresses);
    all.masq_all = true;
    let set = rules(OWNER, &all, Family::V4).unwrap();
    assert_eq!(
        lines(&set.own),
        [
            "-A CHAIN -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            dnat
        ]
    );

    let mut off = ports(&mappings, &addresses);
    off.snat = false;
    let set = rules(OWNER, &off, Family::V4).unwrap();
    assert_eq!(lines(&set.own), [dnat]);
    assert_eq!(set.shared.chains, ["CNI-HOSTPORT-DNAT"]);
    assert_eq!(set.shared.rules.len(), 2);

    let mut other = ports(&mappings, &addresses);
    other.mark = Mark::Chain("KUBE-MARK-MASQ");
    let set = rules(OWNER, &other, Family::V4).unwrap();
    assert_eq!(
        lines(&set.own).first().map(String::as_str),
        Some("-A CHAIN -s 10.0.0.0/24 -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ")
    );
    assert_eq!(set.shared.chains, ["CNI-HOSTPORT-DNAT"]);
}

#[test]
fn fifteen_ports_an_entry_in_their_order() {
    let mappings: Vec<_> = (0..31)
        .map(|i| mapping(9000 - i, 80, Protocol::Tcp, ""))
        .chain([mapping(7, 7, Protocol::Sctp, "")])
        .collect();
    let addresses = nets(&["10.0.0.2/24"]);
    let set = rules(OWNER, &ports(&mappings, &addresses), Family::V4).unwrap();
    let dports: Vec<_> = set
        .entries
        .iter()
        .map(|rule| rule.value_of("--dports").unwrap())
        .collect();
    let numbers = |range: std::ops::RangeInclusive<u16>| {
        let numbers: Vec<_> = range.rev().map(|n| n.to_string()).collect();
        numbers.join(",")
    };
    assert_eq!(
        dports,
        [
            "7".to_owned(),
            numbers(8986..=9000),
            numbers(8971..=8985),
            numbers(8970..=8970)
        ]
    );
}

#[test]
fn conditions_stand_before_the_jump_and_are_quoted() {
    let mappings = [mapping(8080, 80, Protocol::Tcp, "")];
    let addresses = nets(&["10.0.0.2/24", "fd00::2/64"]);
    let conditions = ["!", "-s", "1.2.3.4", "a b"].map(str::to_owned);
    let mut ports = ports(&mappings, &addresses);
    ports.conditions_v4 = &conditions;
    let set = rules(OWNER, &ports, Family::V4).unwrap();
    assert!(set.foreign_words);
    let line = lines(&set.entries).concat();
    assert!(
        line.ends_with("--dports 8080 \"!\" -s \"1.2.3.4\" \"a b\" -j CHAIN"),
        "{line}"
    );
    assert!(!rules(OWNER, &ports, Family::V6).unwrap().foreign_words);
}

#[test]
fn a_rule_tells_the_port_that_it_forwards() {
    let mappings = [
        mapping(8080, 80, Protocol::Tcp, ""),
        mapping(53, 5353, Protocol::Udp, "192.168.77.1"),
    ];
    let addresses = nets(&["10.0.0.2/24"]);
    let set = rules(OWNER, &ports(&mappings, &addresses), Family::V4).unwrap();
    let found: Vec<_> = set
        .own
        .iter()
        .chain(&set.entries)
        .filter_map(read)
        .collect();
    assert_eq!(found, mappings);
    let v6 = Rule::new(
        CHAIN,
        "-d fd01::5/128 -p udp -m udp --dport 1 -j DNAT --to-destination [fd00::2]:2",
    );
    assert_eq!(read(&v6), Some(mapping(1, 2, Protocol::Udp, "fd01::5")));
}

#[test]
fn protocols_match_without_regard_to_case() {
    assert_eq!(Protocol::parse("TCP"), Some(Protocol::Tcp));
    assert_eq!(Protocol::parse("sctp"), Some(Protocol::Sctp));
    assert_eq!(Protocol::parse("icmp"), None);
}
