//! Routes in the words of `ip route`.

use std::fmt::Write as _;

use net::route::{Entry, Kind};

use crate::Node;

/// The table that needs no naming.
const MAIN: u32 = 254;

/// Makers of routes that everybody's iproute2 knows by name.
const MAKERS: [(u8, &str); 8] = [
    (1, "redirect"),
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (9, "ra"),
    (11, "zebra"),
    (12, "bird"),
    (16, "dhcp"),
];

/// The route in the words with which `ip route add` and `ip route del` take it.
pub fn words(node: &Node, entry: &Entry) -> String {
    let route = &entry.route;
    let mut text = match entry.kind {
        Kind::Unicast => String::new(),
        kind => format!("{kind} "),
    };
    match route.dst.prefix_len() {
        // Both families call it so, and only one is asked without the option.
        0 => text.push_str("default"),
        _ => text.push_str(&route.dst.to_string()),
    }
    // Of several ways together all go.
    if !entry.multipath {
        if let Some(gateway) = route.gateway {
            let other = gateway.is_ipv6() && route.dst.addr().is_ipv4();
            let family = if other { "inet6 " } else { "" };
            add(&mut text, format_args!("via {family}{gateway}"));
        }
        if route.index != 0 {
            add(&mut text, format_args!("dev {}", node.name_of(route.index)));
        }
    }
    if let Some(table) = route.table.filter(|table| *table != MAIN) {
        add(&mut text, format_args!("table {table}"));
    }
    match MAKERS.iter().find(|(number, _)| *number == entry.protocol) {
        Some((_, name)) => add(&mut text, format_args!("proto {name}")),
        None => add(&mut text, format_args!("proto {}", entry.protocol)),
    }
    if let Some(metric) = route.priority.filter(|metric| *metric != 0) {
        add(&mut text, format_args!("metric {metric}"));
    }
    text
}

fn add(text: &mut String, word: std::fmt::Arguments) {
    // Writing to a text cannot fail.
    let _ = write!(text, " {word}");
}
