use std::collections::BTreeMap;

use cni::{Command, Env};

use super::*;

pub(super) fn request(json: &str, args: &str) -> Request {
    Request::new(
        Env {
            command: Command::Add,
            container_id: "id".to_string(),
            netns: None,
            ifname: "eth0".to_string(),
            args: args.to_string(),
            path: Vec::new(),
            netns_override: false,
        },
        Config::parse(json.as_bytes().to_vec()).unwrap(),
    )
}

/// The settings of a 1.0.0 configuration with this `ipam` and these other keys.
fn read(ipam: &str, others: &str, args: &str) -> Result<Settings, Error> {
    let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{ipam}{others}}}"#);
    Settings::read(&request(&json, args))
}

fn set_texts(settings: &Settings) -> Vec<String> {
    settings.sets.iter().map(ToString::to_string).collect()
}

#[test]
fn sets_keep_their_order() {
    let settings = read(
        r#"{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.5","gateway":"","ranges":[[{"subnet":"10.2.0.0/24"},
            {"Subnet":"10.3.0.0/24","RANGEEND":"10.3.0.9"}],[{"subnet":"fd00::/64","gateway":"fd00::9"}]]}"#,
        r#","runtimeConfig":{"ipRanges":[[{"subnet":"10.4.0.0/24","gateway":null}]]}"#,
        "",
    )
    .unwrap();
    assert_eq!(
        set_texts(&settings),
        [
            "10.4.0.1-10.4.0.254",
            "10.1.0.5-10.1.0.254",
            "10.2.0.1-10.2.0.254,10.3.0.1-10.3.0.9",
            "fd00::1-fd00::ffff:ffff:ffff:ffff",
        ]
    );
    assert!(settings.sets[3].is_gateway("fd00::9".parse().unwrap()));
}

#[test]
fn requested_addresses_come_from_three_sources_with_or_without_prefix() {
    let settings = read(
        r#"{"subnet":"10.1.0.0/24"}"#,
        r#","args":{"cni":{"ips":["10.1.0.8/24","10.1.0.9"]}},
            "runtimeConfig":{"ips":["10.1.0.10","10.1.0.8","fd00::5/64"]}"#,
        "IgnoreUnknown=1;K8S_POD_NAME=x;IP=10.1.0.9/16",
    )
    .unwrap();
    let texts: Vec<String> = settings.requested.iter().map(IpAddr::to_string).collect();
    assert_eq!(texts, ["10.1.0.9", "10.1.0.8", "10.1.0.10", "fd00::5"]);
}

#[test]
fn routes_and_resolv_conf_are_handed_on() {
    let settings = read(
        r#"{"subnet":"10.1.0.0/24","resolvConf":"/etc/resolv.conf",
            "routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.1.0.7","mtu":1400}]}"#,
        "",
        "",
    )
    .unwrap();
    assert_eq!(
        settings.resolv_conf,
        Some(PathBuf::from("/etc/resolv.conf"))
    );
    assert_eq!(settings.routes[0].gw, None);
    assert_eq!(settings.routes[1].dst.to_string(), "10.9.0.0/16");
    assert_eq!(settings.routes[1].gw, Some("10.1.0.7".parse().unwrap()));
    assert_eq!(settings.routes[1].mtu, Some(1400));
    let plain = read(r#"{"subnet":"10.1.0.0/24","resolvConf":""}"#, "", "").unwrap();
    assert_eq!((plain.resolv_conf, plain.routes), (None, Vec::new()));
}

#[test]
fn a_route_s_values_are_checked_and_named_by_their_place() {
    let read = |route: &str| {
        let routes = format!(r#"{{"dst":"::/0"}},{{"dst":"10.9.0.0/16",{route}}}"#);
        let json = format!(r#"{{"subnet":"10.1.0.0/24","routes":[{routes}]}}"#);
        read(&json, "", "").map_err(|error| (error.code, error.msg))
    };
    for route in [
        r#""mtu":65520,"advmss":65495,"priority":4294967295,"table":4294967295,"scope":254"#,
        r#""mtu":0,"advmss":0,"priority":0,"table":0,"scope":0,"gw":"10.1.0.1""#,
    ] {
        assert!(read(route).is_ok(), "{route}");
    }
    let flaw = "ipam.routes[1].mtu: 65521 must be 0, or 68 to 65520";
    assert_eq!(read(r#""mtu":65521"#).unwrap_err(), (7, flaw.to_owned()));
    let (code, msg) = read(r#""scope":256"#).unwrap_err();
    assert_eq!(code, 6);
    assert!(msg.contains("\"ipam.routes[1].scope\": "), "{msg}");
}

#[test]
fn refusals_in_the_reference_plugins_words() {
    let cases = BTreeMap::from([
        ("{}", "no IP ranges specified"),
        (r#"{"rangeStart":"10.1.0.5"}"#, "no IP ranges specified"),
        (r#"{"ranges":[]}"#, "no IP ranges specified"),
        (r#"{"ranges":[[]]}"#, "invalid range set 0: empty range set"),
        (r#"{"subnet":"10.1.0.0"}"#, "invalid CIDR address: 10.1.0.0"),
        (r#"{"subnet":""}"#, "invalid CIDR address: "),
        (
            r#"{"ranges":[[{"rangeStart":"10.1.0.5"}]]}"#,
            "invalid range set 0: IP <nil> not v4 nor v6",
        ),
        (
            r#"{"subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.2.0.0/31"}]]}"#,
            "invalid range set 1: Network 10.2.0.0/31 too small to allocate from",
        ),
        (
            r#"{"subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.2.0.0/24"}],[{"subnet":"10.1.0.0/16"}]]}"#,
            "range set 0 overlaps with 2",
        ),
        (
            r#"{"subnet":"10.1.0.0/24","rangeEnd":"x"}"#,
            "invalid IP address: x",
        ),
        (
            r#"{"subnet":"10.1.0.0/24","gateway":"::ffff:10.1.0.1"}"#,
            "invalid IP address: ::ffff:10.1.0.1",
        ),
    ]);
    for (ipam, text) in cases {
        let error = read(ipam, "", "").unwrap_err();
        assert_eq!(
            (error.msg.as_str(), error.code),
            (text, code::INVALID_CONFIG),
            "{ipam}"
        );
    }
    let error = read("null", "", "").unwrap_err();
    assert_eq!(error.msg, "IPAM config missing 'ipam' key");
}

#[test]
fn errors_say_what_is_missing() {
    let error = read(r#"{"rangeStart":"10.1.0.5"}"#, "", "").unwrap_err();
    assert_eq!(error.details, r#""rangeStart" needs "subnet" beside it"#);
    let error = read(
        r#"{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.9","rangeEnd":"10.1.0.8"}"#,
        "",
        "",
    )
    .unwrap_err();
    assert_eq!(
        error.details,
        r#""rangeStart" 10.1.0.9 is after "rangeEnd" 10.1.0.8"#
    );
}

#[test]
fn a_value_of_another_type_is_refused() {
    for ipam in [
        r#"{"subnet":5}"#,
        r#"{"ranges":{}}"#,
        r#"{"subnet":"10.1.0.0/24","dataDir":[]}"#,
        r#"{"subnet":"10.1.0.0/24","routes":[{"gw":"10.1.0.1"}]}"#,
    ] {
        let error = read(ipam, "", "").unwrap_err();
        assert_eq!(error.code, code::DECODING_FAILURE, "{ipam}: {error}");
    }
}

#[test]
fn a_range_outside_of_a_set_is_named_with_what_is_expected() {
    let error = read(r#"{"ranges":[{"subnet":"10.1.0.0/24"}]}"#, "", "").unwrap_err();
    assert_eq!(error.code, code::DECODING_FAILURE);
    for part in ["ipam.ranges[0]", "map", "a sequence"] {
        assert!(error.msg.contains(part), "{part}: {error}");
    }
}

#[test]
fn requests_that_are_no_addresses_are_refused() {
    let ipam = r#"{"subnet":"10.1.0.0/24"}"#;
    for (others, args, text, code) in [
        (
            r#","runtimeConfig":{"ips":["x"]}"#,
            "",
            "invalid IP address x",
            code::INVALID_CONFIG,
        ),
        (
            r#","args":{"cni":{"ips":["10.1.0.5/33"]}}"#,
            "",
            "invalid IP address 10.1.0.5/33",
            code::INVALID_CONFIG,
        ),
        (
            r#","runtimeConfig":{"ips":["::ffff:10.1.0.5"]}"#,
            "",
            "invalid IP address ::ffff:10.1.0.5",
            code::INVALID_CONFIG,
        ),
        (
            "",
            "IP=10.1.0",
            "ARGS: error parsing value of pair \"IP=10.1.0\": invalid IP address 10.1.0",
            code::INVALID_ENVIRONMENT,
        ),
    ] {
        let error = read(ipam, others, args).unwrap_err();
        assert_eq!(
            (error.msg.as_str(), error.code),
            (text, code),
            "{others} {args}"
        );
    }
    let error = read(ipam, "", "FOO=1;IP=10.1.0.5").unwrap_err();
    assert_eq!(error.code, code::INVALID_ENVIRONMENT);
}

#[test]
fn old_versions_know_one_address_of_a_family() {
    let two = |version: &str, second: &str| {
        let json = format!(
            r#"{{"cniVersion":"{version}","name":"net","ipam":{{"ranges":
                [[{{"subnet":"10.1.0.0/24"}}],[{{"subnet":"{second}"}}]]}}}}"#
        );
        Settings::read(&request(&json, ""))
    };
    assert_eq!(
        two("0.2.0", "10.2.0.0/24").unwrap_err().msg,
        "CNI version 0.2.0 does not support more than 1 address per family"
    );
    assert!(two("0.2.0", "fd00::/64").is_ok());
    assert!(two("0.3.0", "10.2.0.0/24").is_ok());
}

#[test]
fn the_stores_folder_needs_no_valid_configuration() {
    for (json, path) in [
        (r#"{"name":"net"}"#, "/var/lib/cni/networks/net"),
        (r#"{"name":"net","ipam":5}"#, "/var/lib/cni/networks/net"),
        (
            r#"{"name":"net","ipam":{"type":"host-local","dataDir":""}}"#,
            "/var/lib/cni/networks/net",
        ),
        (
            r#"{"name":"net","ipam":{"dataDir":{}}}"#,
            "/var/lib/cni/networks/net",
        ),
        (
            r#"{"name":"net","ipam":{"datadir":"/x","subnet":5,"ranges":"y"}}"#,
            "/x/net",
        ),
        (r#"{"name":"net","ipam":{"dataDir":"../x"}}"#, "../x/net"),
    ] {
        let config = Config::parse(json.as_bytes().to_vec()).unwrap();
        assert_eq!(store_path(&config), PathBuf::from(path), "{json}");
    }
}

#[test]
fn each_set_knows_its_key() {
    let settings = read(
        r#"{"subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.2.0.0/24"}],[{"subnet":"fd00::/64"}]]}"#,
        r#","runtimeConfig":{"ipRanges":[[{"subnet":"10.4.0.0/24"}]]}"#,
        "",
    )
    .unwrap();
    let origins: Vec<&str> = (0..settings.sets.len())
        .map(|set| settings.origin(set))
        .collect();
    assert_eq!(
        origins,
        [
            "runtimeConfig.ipRanges[0]",
            "ipam.subnet",
            "ipam.ranges[0]",
            "ipam.ranges[1]"
        ]
    );
}

#[test]
fn folders_that_no_file_system_can_have() {
    let refusal = |name: &str, data_dir: &str| {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"{name}",
                "ipam":{{"subnet":"10.1.0.0/24","dataDir":"{data_dir}"}}}}"#
        );
        Settings::read(&request(&json, "")).err()
    };
    let longest = |length: usize| format!("/{}", "d".repeat(254)).repeat(length / 255);
    assert_eq!(refusal(&"n".repeat(255), &longest(15 * 255)), None);
    for (name, data_dir, key, allowed) in [
        (256, "/d".to_owned(), "name: ", "at most 255 bytes"),
        (1, "/a\\u0000b".to_owned(), "ipam.dataDir: ", "no NUL byte"),
        (
            1,
            format!("/d/{}", "d".repeat(256)),
            "ipam.dataDir: ",
            "each part must have at most 255 bytes",
        ),
        (
            15,
            longest(16 * 255),
            "ipam.dataDir: ",
            "at most 4095 bytes",
        ),
    ] {
        let error = refusal(&"n".repeat(name), &data_dir).unwrap();
        assert_eq!(error.code, 7, "{error}");
        let msg = &error.msg;
        assert!(msg.starts_with(key) && msg.ends_with(allowed), "{msg}");
    }
}
