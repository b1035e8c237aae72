//! The ruleset as commands of `nft` that make it again, to be compared and to leave some out.

use crate::common::run;

/// The commands, so ordered that each finds what it needs.
pub fn ruleset() -> Vec<String> {
    parse(&run("nft", &["list", "ruleset"], ""))
}

/// The commands that have one of the words.
pub fn lines_with(words: &[&str]) -> Vec<String> {
    let mut lines = ruleset();
    lines.retain(|line| words.iter().any(|word| line.contains(word)));
    lines
}

/// That the ruleset is as before.
#[track_caller]
pub fn expect(before: &[String], case: &str) {
    let now = ruleset();
    let without = |all: &[String], others: &[String]| {
        let mut rest = all.to_vec();
        rest.retain(|line| !others.contains(line));
        rest
    };
    let (more, less) = (without(&now, before), without(before, &now));
    assert!(
        more.is_empty() && less.is_empty(),
        "{case}: {more:#?}\ninstead of {less:#?}"
    );
    assert_eq!(now.len(), before.len(), "{case}");
}

/// Puts the ruleset in place of what there is.
pub fn put(commands: &[String]) {
    let text = format!("flush ruleset\n{}\n", commands.join("\n"));
    nft(&text);
}

/// Runs commands.
pub fn nft(commands: &str) {
    run("nft", &["-f", "-"], commands);
}

fn parse(text: &str) -> Vec<String> {
    // `nft` breaks lines between elements.
    let text = text.replace(",\n", ", ");
    let mut commands = Vec::new();
    let (mut table, mut object) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches(" {").to_owned();
            commands.push((0, format!("add table {table}")));
        } else if let Some(head) = line.strip_suffix(" {") {
            head.clone_into(&mut object);
            if head.starts_with("chain ") {
                commands.push((1, format!("add {}", in_table(head, &table))));
            }
        } else if let Some(list) = line.strip_prefix("elements = { ") {
            let name = in_table(&object, &table);
            let name = name.split_once(' ').unwrap().1.to_owned();
            for one in elements(list.trim_end_matches(" }")) {
                commands.push((3, format!("add element {name} {{ {one} }}")));
            }
        } else if line.starts_with("type ") && object.starts_with("chain ") {
            let last = commands.last_mut().unwrap();
            last.1 = format!("{} {{ {line} }}", last.1);
        } else if line.starts_with("type ") {
            commands.push((
                2,
                format!("add {} {{ {line}; }}", in_table(&object, &table)),
            ));
        } else if line.starts_with("flags ") {
            let last = commands.last_mut().unwrap();
            last.1 = last.1.replace("; }", &format!("; {line}; }}"));
        } else if !line.is_empty() && line != "}" && !line.starts_with("comment ") {
            let name = in_table(&object, &table);
            let name = name.strip_prefix("chain ").unwrap();
            commands.push((4, format!("add rule {name} {line}")));
        }
    }
    // Where there is an order, it is kept; elements have none.
    let unordered = |order: u8, command: &String| (order == 3).then(|| command.clone());
    commands.sort_by_key(|(order, command)| (*order, unordered(*order, command)));
    commands.into_iter().map(|(_, command)| command).collect()
}

/// The elements of a list; their comments may have commas too.
fn elements(list: &str) -> Vec<String> {
    let mut quoted = false;
    let each = list.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    each.map(|one| one.trim().to_owned()).collect()
}

/// `chain c` as `chain ip t c`.
fn in_table(object: &str, table: &str) -> String {
    let (kind, name) = object.split_once(' ').unwrap();
    format!("{kind} {table} {name}")
}
