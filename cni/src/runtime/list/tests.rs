use std::fs;

use super::*;

fn parse(text: &str) -> Result<NetworkList, (u32, String)> {
    NetworkList::parse(text.into()).map_err(|error| (error.code, error.msg))
}

#[test]
fn a_list_and_a_single_configuration() {
    let list = parse(
        r#"{"cniVersion": "1.0.0", "name": "n", "disableCheck": "True", "DISABLEGC": true,
            "plugins": [{"type": "a", "X": null, "IPAM": {"type": "i"}},
                {"Type": "b"}, {"type": "a"}]}"#,
    )
    .unwrap();
    assert_eq!(
        (list.name.as_str(), list.cni_version),
        ("n", Version::V1_0_0)
    );
    assert!(list.disable_check && list.disable_gc);
    assert_eq!(list.plugins.len(), 3);
    assert_eq!(list.kinds(), ["a", "i", "b"]);
    assert!(list.plugins[0].contains_key("X"));

    let single = parse(r#"{"name": "n", "type": "a", "mtu": 5}"#).unwrap();
    assert_eq!(single.cni_version, Version::V0_1_0);
    assert_eq!(single.plugins.len(), 1);
    assert_eq!(single.plugins[0]["mtu"], 5);
}

#[test]
fn a_name_says_which_of_both_it_is() {
    let list = parse(r#"{"name": "n", "plugins": [{"type": "a"}]}"#).unwrap();
    let single = parse(r#"{"name": "n", "type": "a"}"#).unwrap();
    for (what, file, expected) in [
        (&list, "/etc/10-n.conflist", None),
        (&list, "10-n.conf", Some("it has \"plugins\"")),
        (&list, "10-n.json", Some("it has \"plugins\"")),
        (&single, "10-n.conf", None),
        (&single, "10-n.json", None),
        (&single, "10-n.conflist", Some("it has no \"plugins\"")),
        // Of no folder of configurations.
        (&list, "/dev/stdin", None),
        (&single, "some.txt", None),
    ] {
        let said = what.misnamed(Path::new(file));
        assert_eq!(said.is_some(), expected.is_some(), "{file}: {said:?}");
        assert!(said.is_none_or(|said| expected.is_some_and(|it| said.starts_with(it))));
    }
}

#[test]
fn keys_of_a_plugin() {
    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Keys {
        is_gateway: bool,
        mtu: u32,
    }
    let list = parse(r#"{"name": "n", "type": "a", "ISGateway": true, "mtu": "x"}"#).unwrap();
    let expected = Keys {
        is_gateway: true,
        mtu: 0,
    };
    assert_eq!(keys_of::<Keys>(&list.plugins[0]), expected);
}

#[test]
fn the_newest_known_version_is_chosen() {
    for (versions, expected) in [
        (r#""cniVersion": "0.4.0""#, Some(Version::V0_4_0)),
        (
            r#""cniVersions": ["0.4.0", "1.1.0", "2.0.0", "1.0.0"]"#,
            Some(Version::V1_1_0),
        ),
        (
            r#""cniVersion": "1.0.0", "cniVersions": ["0.4.0"]"#,
            Some(Version::V1_0_0),
        ),
        (r#""cniVersion": """#, Some(Version::V0_1_0)),
        (r#""cniVersion": "9.9.9""#, None),
    ] {
        let got = parse(&format!(r#"{{"name": "n", "type": "a", {versions}}}"#));
        assert_eq!(
            got.map(|list| list.cni_version).ok(),
            expected,
            "{versions}"
        );
    }
}

#[test]
fn refusals() {
    let list = "error parsing configuration list: ";
    for (text, code, msg) in [
        (r#"{"plugins": []}"#, 7, "missing network name".to_owned()),
        (
            r#"{"name": "n", "plugins": []}"#,
            7,
            "no plugins in list".to_owned(),
        ),
        (
            r#"{"name": "n", "plugins": [{}]}"#,
            7,
            "error parsing configuration: missing 'type'".to_owned(),
        ),
        (
            r#"{"name": "n"}"#,
            7,
            "error parsing configuration: missing 'type'".to_owned(),
        ),
        (
            r#"{"name": "n", "plugins": 5}"#,
            6,
            format!("{list}\"plugins\" is no list: 5"),
        ),
        (
            r#"{"name": "n", "plugins": [5]}"#,
            6,
            format!("{list}a plugin is no object: 5"),
        ),
        (
            r#"{"name": "n", "plugins": [{"type": "t", "Capabilities": {"ips": "x"}}]}"#,
            6,
            format!(
                "{list}cannot read \"capabilities.ips\": invalid type: string \"x\", expected a \
                 boolean"
            ),
        ),
        (
            r#"{"name": "n", "loadOnlyInlinedPlugins": "x", "plugins": [{"type": "t"}]}"#,
            6,
            format!(
                "{list}cannot read \"loadOnlyInlinedPlugins\": invalid type: string \"x\", \
                 expected a boolean"
            ),
        ),
    ] {
        assert_eq!(parse(text), Err((code, msg)), "{text}");
    }
}

#[test]
fn what_is_too_large_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.conflist");
    let file = File::create(&path).unwrap();
    file.set_len(MOST).unwrap();
    assert_eq!(read_regular(&path).unwrap().len() as u64, MOST);
    file.set_len(MOST + 1).unwrap();
    let error = NetworkList::from_regular_file(&path).unwrap_err();
    let said = format!("cannot read {}: it has more than 64 MiB", path.display());
    assert_eq!((error.code, error.msg), (code::IO_FAILURE, said));
}

#[test]
fn found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
    let find = |name: &str| {
        NetworkList::find(folder.path(), name)
            .map(|list| input::kind(&list.plugins[0]).to_owned())
            .map_err(|error| error.to_string())
    };
    let place = folder.path().display();
    assert_eq!(
        find("n"),
        Err(format!("no net configurations found in {place}"))
    );
    write("00.conf", r#"{"name": "n", "type": "conf"}"#);
    write(
        "20.conflist",
        r#"{"name": "n", "plugins": [{"type": "second"}]}"#,
    );
    write(
        "10.conflist",
        r#"{"name": "n", "plugins": [{"type": "first"}]}"#,
    );
    write(
        "05.conflist",
        r#"{"name": "other", "plugins": [{"type": "other"}]}"#,
    );
    write("30.json", r#"{"name": "m", "type": "json"}"#);
    write("01.txt", r#"{"name": "t", "type": "t"}"#);
    assert_eq!(find("n").as_deref(), Ok("first"));
    assert_eq!(find("m").as_deref(), Ok("json"));
    write("00.conflist", "torn");
    assert_eq!(find("n").as_deref(), Ok("first"));
    let files = NetworkList::files(folder.path()).unwrap();
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let expected = [
        "00.conflist",
        "05.conflist",
        "10.conflist",
        "20.conflist",
        "00.conf",
        "30.json",
    ];
    assert_eq!(names, expected);
    let error = find("t").unwrap_err();
    assert!(error.starts_with(&format!(
        "no net configuration with name \"t\" in {place} ("
    )));
    assert!(error.contains("00.conflist: "), "{error}");
    // What never ends is not read.
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("00-device.conflist")).unwrap();
    assert_eq!(find("n").as_deref(), Ok("first"));
    let missing = NetworkList::find(&folder.path().join("none"), "n").unwrap_err();
    assert!(missing.msg.starts_with("no net configurations found"));
}
