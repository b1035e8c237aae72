//! The pages for people say what is so: keys are in the tables, the tests that are named there exist,
//! links lead somewhere, and examples work.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Node, expect_none};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages with the plugins' keys, by the plugins' names.
const PAGES: [(&str, &str); 5] = [
    ("bridge", "bridge.md"),
    ("portmap", "portmap.md"),
    ("bandwidth", "bandwidth.md"),
    ("host-local", "host-local.md"),
    ("loopback", "loopback.md"),
];

/// What is in the tables of `common.md` beside keys of a configuration.
const VARIABLES: [&str; 11] = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_NETNS",
    "CNI_IFNAME",
    "CNI_PATH",
    "CNI_ARGS",
    "CNI_NETNS_OVERRIDE",
    "CNI_LITE_LOG",
    "IgnoreUnknown",
    "MAC",
    "IP",
];

/// Every page of `docs`, by its name.
fn pages() -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let page = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(Result::unwrap).map(page).collect()
}

/// One row of a table of keys: its cells.
type Row<'a> = Vec<&'a str>;

fn cells(line: &str) -> Row<'_> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// The rows of all tables of keys or variables of a page, each table with its head.
fn tables(page: &str) -> Vec<(Row<'_>, Vec<Row<'_>>)> {
    let mut tables = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("| key ") || line.starts_with("| variable ") {
            let rows = lines.by_ref().take_while(|line| line.starts_with('|'));
            tables.push((cells(line), rows.skip(1).map(cells).collect()));
        }
    }
    tables
}

/// What stands between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The targets of all links.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('[').skip(1).filter_map(|rest| {
        let (words, rest) = rest.split_once("](")?;
        Some((words, rest.split_once(')')?.0))
    })
}

/// Whether a file has a test of that name.
fn has_test(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut tests = text.split("#[test]").skip(1);
    tests.any(|test| {
        let after = test.split_once("fn ").map_or("", |(_, after)| after);
        after
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('('))
    })
}

#[test]
fn every_row_is_full_and_names_tests_that_exist() {
    let mut failed = Vec::new();
    let mut named = 0;
    for (page, text) in pages() {
        for (head, rows) in tables(&text) {
            assert_eq!(head.last(), Some(&"tested by"), "{page}: {head:?}");
            for row in rows {
                let key = row[0];
                if row.len() != head.len() || row.contains(&"") || quoted(key).count() == 0 {
                    failed.push(format!("{page}: {key}: an empty cell, or no key"));
                }
                let before = named;
                for (test, file) in links(row[row.len() - 1]) {
                    named += 1;
                    let file = root().join("docs").join(file);
                    if !has_test(&file, test.trim_matches('`')) {
                        failed.push(format!("{page}: {key}: no test {test} in {file:?}"));
                    }
                }
                if named == before {
                    failed.push(format!("{page}: {key}: no test"));
                }
            }
        }
    }
    expect_none(failed);
    assert!(named > 100, "{named}");
}

/// The keys in the tables of a page.
fn explained(text: &str) -> BTreeSet<&str> {
    let rows = tables(text).into_iter().flat_map(|(_, rows)| rows);
    rows.flat_map(|row| quoted(row[0])).collect()
}

/// A key as the tables have it: those of `ipam` and of a range are the same wherever they stand.
fn as_in_tables(key: &str) -> &str {
    let key = key.rsplit("[][].").next().unwrap_or(key);
    key.strip_prefix("ipam.").unwrap_or(key)
}

/// The keys that a schema of `conf/schema` describes, as the tables have them.
fn described(schema: &str) -> BTreeSet<String> {
    let keys = schemas::in_schema(&schemas::shipped(schema));
    // What stands in the list of plugins is each plugin's matter.
    let keys = keys.iter().filter(|key| !key.starts_with("plugins[]."));
    keys.map(|key| as_in_tables(key).to_owned()).collect()
}

/// Those of the keys that no table of these pages has, neither themselves nor what is in them.
fn unexplained<'a>(keys: &'a BTreeSet<String>, pages: &[&str]) -> Vec<&'a String> {
    let explained: BTreeSet<&str> = pages.iter().flat_map(|page| explained(page)).collect();
    let is_explained = |key: &str| {
        let inner = format!("{key}.");
        explained.contains(key)
            || explained.iter().any(|known| known.starts_with(&inner))
            // Named beside the key of `runtimeConfig` that it is for.
            || key.starts_with("capabilities.")
    };
    keys.iter().filter(|key| !is_explained(key)).collect()
}

#[test]
fn every_key_is_in_the_table_of_its_page() {
    let pages = pages();
    let common = &pages["common.md"];
    let mut all: BTreeSet<String> = VARIABLES.map(str::to_owned).into();
    for (schema, page) in PAGES {
        let keys = described(schema);
        let missing = unexplained(&keys, &[&pages[page], common]);
        assert!(missing.is_empty(), "{page}: {missing:?}");
        all.extend(keys);
    }
    for schema in ["common", "conflist"] {
        let keys = described(schema);
        let missing = unexplained(
            &keys,
            &[common, &pages["bridge.md"], &pages["host-local.md"]],
        );
        assert!(missing.is_empty(), "{schema}: {missing:?}");
        all.extend(keys);
    }
    for page in PAGES.map(|(_, page)| page).into_iter().chain(["common.md"]) {
        let mut unknown = explained(&pages[page]);
        unknown.retain(|key| !all.contains(*key));
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
    }
}

/// An object with that value at a path, as `routes[].dst`.
fn at_path(path: &str, value: Value) -> Value {
    let (first, value) = match path.split_once('.') {
        Some((first, rest)) => (first, at_path(rest, value)),
        None => (path, value),
    };
    match first.strip_suffix("[]") {
        Some(list) => json!({ list: [value] }),
        None => json!({ first: value }),
    }
}

/// Puts what the other has in place of what is there, object by object.
fn merge(into: &mut Value, other: Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (key, value) in other {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, other) => *into = other,
    }
}

/// A value of a type that the key does not have is refused by its name.
#[test]
fn every_key_of_a_table_is_read_by_its_plugin() {
    let Some(node) = Node::new("docs-keys") else {
        return;
    };
    let pod = node.pod("pod");
    let base = node.bridge_config(json!({}));
    let pages = pages();
    let mut failed = Vec::new();
    for (plugin, page) in PAGES {
        for key in explained(&pages[page]) {
            let outer = ["ipam", "name", "runtimeConfig", "args"];
            let is_outer = outer.contains(&key.split('.').next().unwrap());
            let path = match plugin {
                "host-local" if !is_outer => format!("ipam.{key}"),
                _ => key.to_owned(),
            };
            let name = path.rsplit(['.', ']']).next().unwrap();
            let refused = [json!(5), json!("x")].into_iter().any(|value| {
                let mut config = base.clone();
                merge(&mut config, at_path(&path, value));
                let answer = node.call(plugin, "ADD", &pod, &config, &[]);
                answer.status == 1 && answer.error().0 == 6 && answer.error().1.contains(name)
            });
            failed.extend((!refused).then(|| format!("{page}: {key}")));
        }
    }
    expect_none(failed);
}

#[test]
fn every_key_of_the_example_with_all_of_them_is_explained() {
    let text = fs::read_to_string(root().join("conf/90-every-key.conflist")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let plugins = list["plugins"].as_array().unwrap();
    let pages = pages();
    for (config, (_, page)) in plugins.iter().zip(PAGES) {
        let mut keys = schemas::in_value(config);
        // Another plugin's.
        keys.retain(|key| !key.starts_with("ipam."));
        let missing = unexplained(&keys, &[&pages[page], &pages["common.md"]]);
        assert!(missing.is_empty(), "{page}: {missing:?}");
        assert!(keys.len() > 3, "{page}: {keys:?}");
    }
    let keys = schemas::in_value(&plugins[0]["ipam"]);
    let keys = keys
        .iter()
        .map(|key| as_in_tables(key).to_owned())
        .collect();
    assert_eq!(unexplained(&keys, &[&pages["host-local.md"]]), [""; 0]);
}

#[test]
fn every_link_leads_to_a_file() {
    let folders = ["", "docs", "conf"];
    let mut failed = Vec::new();
    let mut checked = 0;
    for folder in folders.map(|folder| root().join(folder)) {
        for entry in fs::read_dir(&folder).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            for (_, target) in links(&text).filter(|(_, target)| !target.contains("://")) {
                checked += 1;
                let path = target.split('#').next().unwrap();
                if !folder.join(path).exists() {
                    failed.push(format!("{}: {target}", file.display()));
                }
            }
        }
    }
    expect_none(failed);
    assert!(checked > 100, "{checked}");
}

/// The blocks of a page that are whole conflists.
fn examples(page: &str) -> Vec<Value> {
    let blocks = page.split("```json\n").skip(1);
    let json = blocks.map(|block| block.split("```").next().unwrap());
    json.map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

#[test]
fn every_example_is_as_the_schema_says() {
    let schema = schemas::shipped("conflist");
    let pages = pages();
    for (_, page) in PAGES {
        let examples = examples(&pages[page]);
        assert_eq!(examples.len(), 1, "{page}");
        expect_none(schemas::flaws(&schema, &examples[0]));
    }
}

#[test]
fn every_example_makes_a_pod_checks_it_and_unmakes_it() {
    let pages = pages();
    for (_, page) in PAGES {
        let examples = examples(&pages[page]);
        assert_eq!(examples.len(), 1, "{page}");
        for example in examples {
            let Some(node) = Node::new("docs") else {
                return;
            };
            let _outside = node.outside();
            let list = node.list(example);
            let asked = json!({
                "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]
            });
            let mut before = None;
            // What all pods share stays after the first.
            for name in ["first", "second"] {
                let pod = node.pod(name);
                let added = node.add(&list, &pod, asked.clone());
                let added = added.unwrap_or_else(|error| panic!("{page}: {error}"));
                pod.namespace.ping(added.ips[0].gateway.unwrap()).unwrap();
                for done in [node.check(&list, &pod), node.del(&list, &pod)] {
                    done.unwrap_or_else(|error| panic!("{page}: {error}"));
                }
                let now = node.snapshot(&list.name);
                assert_eq!(before.get_or_insert(now.clone()), &now, "{page}");
            }
        }
    }
}
