//! Routes and changes as they are printed.

use node::routes::{Change, Line, Mark, words};
use node::{Node, Site};
use serde_json::{Value, json};

use crate::output::Answer;

/// Every route with its mark.
pub fn shown(node: &Node, site: &Site, lines: &[Line]) -> Answer {
    let text = lines.iter().map(|line| {
        let to = line.planned.as_ref();
        let to = to.map_or(String::new(), |planned| format!(" node={}", planned.to));
        format!("{} {}{to}\n", line.mark.as_str(), route(node, line))
    });
    Answer {
        text: text.collect(),
        json: json!({ "node": site.name, "routes": lines.iter().map(|line| to_json(node, line)).collect::<Vec<_>>() }),
    }
}

/// The route as it is there, or else as it is planned.
fn route(node: &Node, line: &Line) -> String {
    match (&line.found, &line.planned) {
        (Some(entry), _) => words(node, entry),
        (None, Some(planned)) => format!("{} via {}", planned.range, planned.via),
        (None, None) => line.range.to_string(),
    }
}

fn to_json(node: &Node, line: &Line) -> Value {
    let found = line.found.as_ref();
    let planned = line.planned.as_ref();
    let gateway = found.and_then(|entry| entry.route.gateway);
    json!({
        "mark": line.mark.as_str(),
        "destination": line.range,
        "via": gateway.or(planned.map(|planned| planned.via)),
        "device": found.map(|entry| node.name_of(entry.route.index)),
        "protocol": found.map(|entry| entry.protocol),
        "metric": found.and_then(|entry| entry.route.priority),
        "node": planned.map(|planned| &planned.to),
        "route": route(node, line),
    })
}

/// Others' routes about pods that are not planned, and are in nobody's way.
pub fn others(node: &Node, lines: &[Line], change: &Change) -> Vec<String> {
    let foreign = lines.iter().filter(|line| line.mark == Mark::Foreign);
    let routes = foreign.map(|line| route(node, line));
    let named = |route: &String| change.blocked.iter().any(|blocked| blocked.route == *route);
    routes.filter(|route| !named(route)).collect()
}

/// What is to be done, or was.
pub fn changed(node: &Node, change: &Change, others: &[String]) -> Answer {
    let removed: Vec<String> = change
        .delete
        .iter()
        .map(|entry| words(node, entry))
        .collect();
    let added = change.add.iter();
    let added: Vec<String> = added
        .map(|addition| words(node, &addition.entry()))
        .collect();
    let mut text = String::new();
    for (sign, routes) in [('-', &removed), ('+', &added)] {
        text.extend(routes.iter().map(|route| format!("{sign} {route}\n")));
    }
    for blocked in &change.blocked {
        let (route, why, mend) = (&blocked.route, &blocked.why, &blocked.mend);
        text.push_str(&format!("! {route}: {why}; see: {mend}\n"));
    }
    text.extend(
        others
            .iter()
            .map(|route| format!("! {route}: not planned, and another's\n")),
    );
    let blocked = change
        .blocked
        .iter()
        .map(|blocked| json!({ "route": blocked.route, "why": blocked.why, "mend": blocked.mend }));
    Answer {
        text,
        json: json!({
            "removed": removed,
            "added": added,
            "blocked": blocked.collect::<Vec<_>>(),
            "foreign": others,
        }),
    }
}
