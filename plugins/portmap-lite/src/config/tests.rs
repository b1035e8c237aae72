use cni::{Command, Config, Env};

use super::*;

fn read(keys: &str) -> Result<PortmapConfig, Error> {
    read_on(Backend::Iptables, keys)
}

/// As on a node of that backend.
fn read_on(node: Backend, keys: &str) -> Result<PortmapConfig, Error> {
    PortmapConfig::from_keys(request(keys).config.read()?, || node)
}

fn request(keys: &str) -> Request {
    let raw = format!("{{\"cniVersion\":\"1.0.0\",\"name\":\"net\",\"type\":\"portmap\"{keys}}}");
    request_of(raw)
}

pub(super) fn request_of(config: String) -> Request {
    Request::new(
        Env {
            command: Command::Add,
            container_id: "id".into(),
            netns: None,
            netns_override: false,
            ifname: "eth0".into(),
            args: String::new(),
            path: Vec::new(),
        },
        Config::parse(config.into_bytes()).unwrap(),
    )
}

fn with_ports(ports: &str) -> String {
    format!(",\"runtimeConfig\":{{\"portMappings\":[{ports}]}}")
}

#[test]
fn defaults() {
    for keys in [
        "",
        ",\"runtimeConfig\":null",
        ",\"runtimeConfig\":{\"portMappings\":null}",
        ",\"runtimeConfig\":{\"portMappings\":[]},\"externalSetMarkChain\":\"\"",
    ] {
        let config = read(keys).unwrap();
        assert!(config.mappings.is_empty() && config.snat && !config.masq_all);
        assert_eq!(config.mark, MarkKey::Bit(13));
    }
}

#[test]
fn ports_as_runtimes_write_them() {
    let config = read(&with_ports(
        r#"{"HostPort":18080,"ContainerPort":8080,"Protocol":"","HostIP":""},
           {"hostPort":53,"containerPort":5353,"protocol":"UDP","hostIP":"::ffff:192.0.2.1"},
           {"hostPort":65535,"containerPort":1,"protocol":"sctp","hostIP":"fd00::1"}"#,
    ));
    let mapping = |host_port, container_port, protocol, host_ip: &str| Mapping {
        host_port,
        container_port,
        protocol,
        host_ip: host_ip.parse().ok(),
    };
    assert_eq!(
        config.unwrap().mappings,
        [
            mapping(18080, 8080, Protocol::Tcp, ""),
            mapping(53, 5353, Protocol::Udp, "192.0.2.1"),
            mapping(65535, 1, Protocol::Sctp, "fd00::1"),
        ]
    );
}

#[test]
fn every_key() {
    let config = read(
        r#","backend":"iptables","snat":false,"masqAll":true,"markMasqBit":0,
           "conditionsV4":["!","-s","192.0.2.0/24"],"conditionsV6":["-i","eth0"]"#,
    )
    .unwrap();
    let ports = config.host_ports(&[]);
    assert!(!ports.snat && ports.masq_all);
    assert_eq!(ports.mark, Mark::Bit(0));
    assert_eq!(ports.conditions_v4, ["!", "-s", "192.0.2.0/24"]);
    assert_eq!(ports.conditions_v6, ["-i", "eth0"]);
    let config = read(r#","externalSetMarkChain":"KUBE-MARK-MASQ""#).unwrap();
    assert_eq!(config.host_ports(&[]).mark, Mark::Chain("KUBE-MARK-MASQ"));
}

/// Expects each configuration to be refused with the code and a message that has the text.
fn refused(cases: &[(&str, u32, &str)]) {
    for (keys, code, text) in cases {
        let error = read(keys).unwrap_err();
        assert_eq!(error.code, *code, "{keys}: {error}");
        assert!(error.msg.contains(text), "{keys}: {error}");
    }
}

#[test]
fn ports_that_are_none_are_named_with_what_is_allowed() {
    let cases = [
        (
            r#""hostPort":0,"containerPort":80"#,
            7,
            "Invalid host port number: 0 (runtimeConfig.portMappings[0].hostPort must be 1 to 65535)",
        ),
        (
            r#""hostPort":65536,"containerPort":80"#,
            7,
            "host port number: 65536",
        ),
        (
            r#""hostPort":0,"containerPort":0"#,
            7,
            "Invalid container port number: 0",
        ),
        (
            r#""hostPort":1,"containerPort":-1"#,
            7,
            "Invalid container port number: -1",
        ),
        (
            r#""hostPort":1,"containerPort":1,"protocol":"icmp""#,
            7,
            "\"icmp\" (runtimeConfig.portMappings[0].protocol must be tcp, udp or sctp)",
        ),
        (
            r#""hostPort":1,"containerPort":1,"hostIP":"x""#,
            7,
            "\"x\" (runtimeConfig.portMappings[0].hostIP must be an IPv4 or IPv6 address)",
        ),
        (
            r#""hostPort":"1","containerPort":1"#,
            6,
            "runtimeConfig.portMappings[0].hostPort",
        ),
    ];
    for (port, code, text) in cases {
        refused(&[(&with_ports(&format!("{{{port}}}")), code, text)]);
    }
}

#[test]
fn what_cannot_be_done_is_named_with_what_is_allowed() {
    let long = format!(",\"externalSetMarkChain\":\"{}\"", "x".repeat(29));
    refused(&[
        (
            r#","backend":"x""#,
            7,
            "unrecognized backend \"x\" (backend must be \"iptables\" or \"nftables\")",
        ),
        (
            r#","markMasqBit":32"#,
            7,
            "MasqMarkBit must be between 0 and 31",
        ),
        (
            r#","markMasqBit":-1"#,
            7,
            "MasqMarkBit must be between 0 and 31",
        ),
        (
            r#","externalSetMarkChain":"X","markMasqBit":3"#,
            7,
            "Cannot specify externalSetMarkChain and markMasqBit",
        ),
        (&long, 7, "externalSetMarkChain must be"),
        (
            r#","externalSetMarkChain":"a b""#,
            7,
            "Invalid chain name: \"a b\"",
        ),
        (
            r#","externalSetMarkChain":"PREROUTING""#,
            7,
            "externalSetMarkChain must be no built-in chain",
        ),
        (r#","externalSetMarkChain":"-j""#, 7, "Invalid chain name"),
    ]);
}

#[test]
fn the_node_chooses_where_nobody_does() {
    for node in [Backend::Iptables, Backend::Nftables] {
        assert_eq!(read_on(node, "").unwrap().backend, node);
        assert_eq!(read_on(node, r#","backend":"""#).unwrap().backend, node);
        for chosen in [Backend::Iptables, Backend::Nftables] {
            let keys = format!(",\"backend\":\"{chosen}\"");
            assert_eq!(read_on(node, &keys).unwrap().backend, chosen);
        }
    }
    let asked = PortmapConfig::from_keys(
        request(r#","backend":"nftables""#).config.read().unwrap(),
        || panic!("the node was asked for nothing"),
    );
    assert_eq!(asked.unwrap().backend, Backend::Nftables);
}

#[test]
fn conditions_are_words_of_the_backend() {
    refused(&[
        (
            r#","conditionsV6":["ip6","saddr"]"#,
            7,
            "iptables backend was requested but configuration contains nftables-specific options \
             [conditionsV6]",
        ),
        (
            r#","backend":"nftables","conditionsV4":["!","-s"],"conditionsV6":["-i","eth0"],
               "externalSetMarkChain":"X""#,
            7,
            "nftables backend was requested but configuration contains iptables-specific options \
             [externalSetMarkChain conditionsV4 conditionsV6]",
        ),
        (
            r#","conditionsV4":["-s","1.2.3.4\nCOMMIT"]"#,
            7,
            "Invalid condition: \"1.2.3.4\\nCOMMIT\"",
        ),
        (
            r#","conditionsV6":["-i","a\"b"]"#,
            7,
            "Invalid condition: conditionsV6: \"a\\\"b\" cannot be the name of a link; allowed: letters, \
             digits and signs, no quotes, backslashes, white space and no - at its begin",
        ),
        (
            r#","backend":"nftables","conditionsV6":["ip6 saddr fd00::1 tcp","sport 5"]"#,
            7,
            "Invalid condition: conditionsV6: tcp \"sport\" is not supported in \
             \"ip6 saddr fd00::1 tcp sport 5\"; allowed: ip saddr, ip daddr (ip6 for IPv6)",
        ),
    ]);
    let keys = r#","backend":"nftables","conditionsV4":["ip saddr","!= 192.0.2.0/24"]"#;
    let config = read(keys).unwrap();
    assert_eq!(
        config.host_ports(&[]).conditions_v4,
        ["ip saddr", "!= 192.0.2.0/24"]
    );
}

#[test]
fn del_takes_what_it_can_read() {
    let keys = with_ports(
        r#"{"hostPort":"x","containerPort":80},{"hostPort":53,"containerPort":53,"protocol":"udp"},
           {"hostPort":99999,"containerPort":1}"#,
    );
    let told = told_mappings(&request(&format!(
        "{keys},\"backend\":\"nftables\",\"snat\":3"
    )));
    assert_eq!(told.iter().map(|m| m.host_port).collect::<Vec<_>>(), [53]);
    assert_eq!(told_mappings(&request(",\"runtimeConfig\":7")), []);
}
