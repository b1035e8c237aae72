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

/// The keys that the plugins know, by the page that explains them.
const KEYS: [(&str, &str); 5] = [
    (
        "common.md",
        "CNI_COMMAND CNI_CONTAINERID CNI_NETNS CNI_IFNAME CNI_PATH CNI_ARGS CNI_NETNS_OVERRIDE \
         CNI_LITE_LOG IgnoreUnknown MAC IP \
         cniVersion name type capabilities runtimeConfig args prevResult logFile \
         cni.dev/valid-attachments cni.dev/attachments \
         cniVersions disableCheck disableGC loadOnlyInlinedPlugins",
    ),
    (
        "bridge.md",
        "bridge isGateway isDefaultGateway forceAddress ipMasq ipMasqBackend mtu hairpinMode \
         promiscMode vlan vlanTrunk vlanTrunk[].id vlanTrunk[].minID vlanTrunk[].maxID \
         preserveDefaultVlan macspoofchk enabledad \
         disableContainerInterface portIsolation ipam \
         dns dns.nameservers dns.domain dns.search dns.options \
         args.cni.mac args.cni.ips \
         runtimeConfig.mac runtimeConfig.ips runtimeConfig.ipRanges",
    ),
    (
        "portmap.md",
        "backend snat masqAll markMasqBit externalSetMarkChain conditionsV4 conditionsV6 prevResult \
         runtimeConfig.portMappings runtimeConfig.portMappings[].hostPort \
         runtimeConfig.portMappings[].containerPort runtimeConfig.portMappings[].protocol \
         runtimeConfig.portMappings[].hostIP",
    ),
    (
        "bandwidth.md",
        "ingressRate ingressBurst egressRate egressBurst shapedSubnets unshapedSubnets prevResult \
         runtimeConfig.bandwidth \
         runtimeConfig.bandwidth.ingressRate runtimeConfig.bandwidth.ingressBurst \
         runtimeConfig.bandwidth.egressRate runtimeConfig.bandwidth.egressBurst \
         runtimeConfig.bandwidth.shapedSubnets runtimeConfig.bandwidth.unshapedSubnets",
    ),
    (
        "host-local.md",
        "ipam ranges subnet rangeStart rangeEnd gateway dataDir resolvConf type name \
         routes routes[].dst routes[].gw routes[].mtu routes[].advmss routes[].priority \
         routes[].table routes[].scope \
         runtimeConfig.ipRanges runtimeConfig.ips args.cni.ips",
    ),
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

#[test]
fn every_key_is_in_the_table_of_its_page() {
    let pages = pages();
    for (page, keys) in KEYS {
        let known: BTreeSet<_> = keys.split_whitespace().collect();
        assert_eq!(explained(&pages[page]), known, "{page}");
    }
}

/// An object with that value at a path, as [`paths`] has them.
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
    let mut failed = Vec::new();
    for (page, keys) in &KEYS[1..] {
        let plugin = page.trim_end_matches(".md");
        for key in keys.split_whitespace() {
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

/// The paths of all keys, as `routes[].dst`.
fn paths(value: &Value, prefix: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let of_field = |(key, value): (&String, &Value)| {
                let path = format!("{prefix}{key}");
                let mut all = paths(value, &format!("{path}."));
                all.push(path);
                all
            };
            fields.iter().flat_map(of_field).collect()
        }
        Value::Array(items) => {
            let prefix = format!("{}[]", prefix.trim_end_matches('.'));
            let of_item = |item: &Value| match item {
                Value::Array(_) => paths(item, &prefix),
                _ => paths(item, &format!("{prefix}.")),
            };
            items.iter().flat_map(of_item).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_key_of_the_example_with_all_of_them_is_explained() {
    let text = fs::read_to_string(root().join("conf/90-every-key.conflist")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let plugins = list["plugins"].as_array().unwrap();
    let pages = pages();
    let common = explained(&pages["common.md"]);
    let parts = [
        ("bridge.md", &plugins[0]),
        ("portmap.md", &plugins[1]),
        ("bandwidth.md", &plugins[2]),
        ("host-local.md", &plugins[0]["ipam"]),
    ];
    for (page, config) in parts {
        let explained = explained(&pages[page]);
        let is_explained = |key: &str| {
            let inner = format!("{key}.");
            // The keys of a range are the same wherever it stands.
            let key = key.trim_start_matches("ranges[][].");
            explained.contains(key)
                || common.contains(key)
                || explained.iter().any(|known| known.starts_with(&inner))
                // Each a page's own matter.
                || ["ipam.", "capabilities."].iter().any(|outer| key.starts_with(outer))
        };
        let keys = paths(config, "");
        let missing: Vec<_> = keys.iter().filter(|key| !is_explained(key)).collect();
        assert!(missing.is_empty(), "{page}: {missing:?}");
        assert!(keys.len() > 3, "{page}: {keys:?}");
    }
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
fn every_example_makes_a_pod_checks_it_and_unmakes_it() {
    let pages = pages();
    for (page, _) in &KEYS[1..] {
        let examples = examples(&pages[*page]);
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
