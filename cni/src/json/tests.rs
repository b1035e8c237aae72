use std::collections::BTreeMap;

use serde_json::json;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Conf {
    is_gateway: bool,
    mtu: u32,
    name: String,
    inner: Inner,
    list: Vec<Vec<Inner>>,
    optional: Option<i64>,
    map: BTreeMap<String, bool>,
    any: Value,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Inner {
    subnet: Option<ipnet::IpNet>,
    port: u16,
}

fn conf(text: &str) -> Result<Conf, String> {
    let value = parse(text.as_bytes()).map_err(|e| e.to_string())?;
    read(&value).map_err(|e| e.to_string())
}

#[test]
fn keys_match_without_case_and_the_last_wins() {
    for (text, mtu) in [
        (r#"{"mtu": 1}"#, 1),
        (r#"{"MTU": 1}"#, 1),
        (r#"{"mtu": 1, "Mtu": 2}"#, 2),
        (r#"{"Mtu": 2, "mtu": 1}"#, 1),
        (r#"{"mtu": 1, "mtu": 2}"#, 2),
        (r#"{"mtu": 1, "MTU": 2, "mtu": 3}"#, 3),
        (r#"{"mtu": 1, "mtu": null}"#, 1),
        (r#"{"mtu": 1, "MTU": null}"#, 1),
        (r#"{"mtu": null}"#, 0),
        (r#"{"mtu": "x", "mtu": 4}"#, 4),
        (r#"{"other": {"a": [1]}}"#, 0),
    ] {
        assert_eq!(conf(text).map(|c| c.mtu), Ok(mtu), "{text}");
    }
}

#[test]
fn at_every_depth() {
    let text = r#"{"ISGATEWAY": true, "List": [[{"PORT": 1}, null], null, [{"pOrt": 2}]],
        "INNER": {"Subnet": "10.0.0.1/8"}, "Optional": -3, "map": {"A": true, "a": false},
        "any": {"K": 1}}"#;
    let expected = Conf {
        is_gateway: true,
        list: vec![
            vec![Inner {
                port: 1,
                subnet: None,
            }],
            vec![Inner {
                port: 2,
                subnet: None,
            }],
        ],
        inner: Inner {
            subnet: Some("10.0.0.1/8".parse().unwrap()),
            port: 0,
        },
        optional: Some(-3),
        map: [("A".to_owned(), true), ("a".to_owned(), false)].into(),
        any: json!({"K": 1}),
        ..Conf::default()
    };
    assert_eq!(conf(text), Ok(expected));
}

#[test]
fn errors_name_path_value_and_what_is_allowed() {
    for (text, expected) in [
        (
            r#"{"list": [[{}, {"port": "x"}]]}"#,
            "cannot read \"list[0][1].port\": invalid type: string \"x\", expected an integer from 0 to 65535",
        ),
        (
            r#"{"Mtu": 1.0}"#,
            "cannot read \"mtu\": invalid type: floating point `1.0`, expected an integer from 0 to 4294967295",
        ),
        (
            r#"{"mtu": -1}"#,
            "cannot read \"mtu\": invalid value: integer `-1`, expected an integer from 0 to 4294967295",
        ),
        (
            r#"{"mtu": 4294967296}"#,
            "cannot read \"mtu\": invalid value: integer `4294967296`, expected an integer from 0 to 4294967295",
        ),
        (
            r#"{"inner": {"subnet": "10.0.0.0/99"}}"#,
            "cannot read \"inner.subnet\": \"10.0.0.0/99\": invalid IP address syntax",
        ),
        (
            r#"{"inner": [1]}"#,
            "cannot read \"inner\": invalid type: sequence, expected an object",
        ),
        ("[]", "invalid type: sequence, expected an object"),
        ("5", "invalid type: integer `5`, expected an object"),
    ] {
        assert_eq!(conf(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_not_one_document() {
    for text in [
        "",
        "{",
        "{} x",
        "{}{}",
        "{'a': 1}",
        "{\"a\": 01}",
        "nul",
        "\u{feff}{}",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(parse(b"{\"a\": \"\xff\"}").is_err());
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(parse(deep.as_bytes()).is_ok());
}

#[test]
fn tolerance_leaves_out_only_what_cannot_be_read() {
    let cases = [
        (json!({"mtu": "x", "name": "n"}), "n", 0),
        (
            json!({"name": "n", "inner": {"subnet": 5, "port": 7}}),
            "n",
            7,
        ),
        (
            json!({"name": "n", "inner": [], "MTU": {}, "list": 5}),
            "n",
            0,
        ),
        (json!({"name": "n", "Name": 5}), "n", 0),
        (json!([]), "", 0),
        (json!(null), "", 0),
    ];
    for (value, name, port) in cases {
        let conf: Conf = read_tolerant(&value);
        assert_eq!(
            (conf.name.as_str(), conf.inner.port),
            (name, port),
            "{value}"
        );
    }
    let value = json!({"list": [null, [{"port": 1}, {"port": "x", "subnet": "::/64"}, 5]]});
    let conf: Conf = read_tolerant(&value);
    let subnet = Some("::/64".parse().unwrap());
    let expected = vec![vec![
        Inner {
            port: 1,
            subnet: None,
        },
        Inner { port: 0, subnet },
    ]];
    assert_eq!(conf.list, expected);
}

#[test]
fn values_keep_their_keys_and_order() {
    let value = parse(br#"{"b": 1, "A": {"z": 1, "y": 2}, "b": 3, "a": [1.5, null, -2]}"#);
    assert_eq!(
        value.unwrap().to_string(),
        r#"{"A":{"z":1,"y":2},"b":3,"a":[1.5,null,-2]}"#
    );
}
