use serde::Deserialize;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Keys {
    flag: bool,
    nodes: Vec<NodeKeys>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeKeys {
    name: String,
    #[serde(default)]
    limit: u32,
}

fn refusal(text: &str) -> String {
    Document::parse("f.yaml", text)
        .and_then(|document| document.read::<Keys>())
        .unwrap_err()
        .to_string()
}

#[test]
fn yaml_and_json_say_the_same() {
    let yaml = "# first\nflag: true\nnodes:\n- name: &n a\n  limit: 3\n- {name: *n}\n";
    let json = r#"{"flag": true, "nodes": [{"name": "a", "limit": 3}, {"name": "a"}]}"#;
    let read = |text| Document::parse("f", text).unwrap().read::<Keys>().unwrap();
    assert_eq!(read(yaml), read(json));
    assert_eq!(read(yaml).nodes[0].limit, 3);
    for empty in ["", "---\n", "# nothing\n", "{}"] {
        assert_eq!(read(empty), Keys::default(), "{empty:?}");
    }
}

#[test]
fn errors_have_the_line_and_the_key() {
    for (text, said) in [
        (
            "flag: true\nflgs: 1",
            "f.yaml:2: flgs: unknown field `flgs`",
        ),
        (
            "nodes:\n- name: a\n- name: b\n  limit: x\n",
            "f.yaml:4: nodes[1].limit: invalid type: string \"x\", expected a whole number from 0 to \
             4294967295",
        ),
        (
            "nodes:\n- name: a\n-\n  limit: 1\n",
            "f.yaml:4: nodes[1]: missing field `name`",
        ),
        ("- a\n", "f.yaml:1: expected keys with values, not [\"a\"]"),
        (
            "a: 1\n---\nb: 2\n",
            "f.yaml:3: a second document begins here",
        ),
        (
            "flag: true\nflag: false\n",
            "f.yaml:2: neither YAML nor JSON: duplicated key",
        ),
        (
            "a: [1\n",
            "f.yaml:2: neither YAML nor JSON: while parsing a flow sequence",
        ),
        ("{\"a\": }}", "f.yaml:1: neither YAML nor JSON: "),
        ("a: b: c\n", "f.yaml:1: neither YAML nor JSON: "),
        ("%x", "f.yaml:2: neither YAML nor JSON: "),
        (
            "flag: !!int x\n",
            "f.yaml:1: flag: not of the type that its tag says",
        ),
        ("[a, b]: c\n", "f.yaml:1: a key must be a text"),
        ("a: *b\n", "f.yaml:1: neither YAML nor JSON: "),
    ] {
        let error = refusal(text);
        assert!(error.starts_with(said), "{text:?}: {error}");
    }
}

#[test]
fn json_that_is_no_yaml() {
    let text = "{\n\t\"flag\": true, \"nodes\": [{ \"name\": \"\\ud83d\\ude00\\/\" }]\n}";
    let read: Keys = Document::parse("f", text).unwrap().read().unwrap();
    assert_eq!(read.nodes[0].name, "\u{1f600}/");
    let twice = "{\"flag\": true,\n\"flag\": false}";
    assert!(refusal(twice).starts_with("f.yaml:2: neither YAML nor JSON: duplicated key"));
}

#[test]
fn what_is_too_much_is_refused() {
    let deep = "- ".repeat(100_000);
    assert_eq!(refusal(&deep), "f.yaml:1: nested deeper than 64 times");
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let ten = vec![format!("*a{}", n - 1); 10].join(", ");
        laughs.push_str(&format!("a{n}: &a{n} [{ten}]\n"));
    }
    assert!(refusal(&laughs).contains("neither YAML nor JSON"));
}

#[test]
fn what_comes_from_elsewhere_says_so() {
    let text = "flag: x\nnodes:\n- name: a\n  limit: x\n- name: b\n  limit: 7\n";
    let mut document = Document::parse("f", text).unwrap();
    let says = |document: &Document| document.read::<Keys>().unwrap_err().to_string();
    assert!(says(&document).starts_with("f:1: flag: "));
    document.set("flag", json!(3), "--flag");
    assert_eq!(
        says(&document),
        "--flag: invalid type: integer `3`, expected true or false"
    );
    document.set("flag", json!(true), "--flag");
    assert!(says(&document).starts_with("f:4: nodes[0].limit: "));
    let given = |name: &str, limit: Value| GivenNode {
        name: name.to_owned(),
        keys: vec![("limit", limit)],
        from: "--limit".to_owned(),
    };
    let all = vec![
        given("a", json!(1)),
        given("b", json!(2)),
        given("c", json!(3)),
    ];
    let mut kept = document.clone();
    kept.add_nodes(all.clone(), Merge::Under);
    assert!(says(&kept).starts_with("f:4: nodes[0].limit: "));
    document.add_nodes(all, Merge::Over);
    let read: Keys = document.read().unwrap();
    let limits: Vec<_> = read.nodes.iter().map(|node| node.limit).collect();
    assert_eq!(limits, [1, 2, 3]);
    document.add_nodes(vec![given("e", json!("x"))], Merge::Known);
    assert_eq!(document.read::<Keys>().unwrap().nodes.len(), 3);
    document.add_nodes(vec![given("d", json!("x"))], Merge::Under);
    assert!(says(&document).starts_with("--limit: invalid type: "));
}

#[test]
fn documents_of_one_file() {
    let all = Document::parse_all("f", "a: 1\n---\n---\n# only a comment\n---\nb: 2\n").unwrap();
    let lines: Vec<_> = all.iter().map(|document| document.line("")).collect();
    assert_eq!(lines, [Some(1), Some(6)]);
    assert_eq!(all[1].line("b"), Some(6));
    assert_eq!(all[1].line("b.c[3]"), Some(6));
}
