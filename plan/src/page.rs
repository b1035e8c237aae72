//! One self-contained page: the ranges drawn to scale, and how nodes reach each other's pods.
//!
//! It needs neither a script nor anything from elsewhere. What is drawn can be reached by the keyboard
//! and is also in a table.

mod axis;
mod map;
mod picture;

use crate::capacity::Capacity;
use crate::overlap::Finding;
use crate::podcidrs::joined;
use crate::{Plan, range};

const STYLE: &str = include_str!("page/style.css");

/// The page.
pub fn page(plan: &Plan, capacity: &Capacity, findings: &[Finding]) -> String {
    let cluster = &plan.cluster;
    let name = escape(&cluster.network);
    let mut page = format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Pod network {name}</title>
<style>
{STYLE}</style>
</head>
<body>
<a class=\"skip\" href=\"#nodes\">To the table of nodes</a>
<header>
<h1>Pod network {name}</h1>
"
    );
    page.push_str(&numbers(capacity));
    page.push_str("</header>\n<main>\n");
    page.push_str(&faults(findings));
    page.push_str("<section aria-labelledby=\"map\">\n<h2 id=\"map\">Addresses</h2>\n");
    for ipv4 in [true, false] {
        page.push_str(&map::maps(plan, ipv4));
    }
    page.push_str("</section>\n");
    page.push_str("<section aria-labelledby=\"routes\">\n<h2 id=\"routes\">Routes</h2>\n");
    page.push_str(&picture::picture(plan));
    page.push_str("</section>\n");
    page.push_str(&table(plan));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn numbers(capacity: &Capacity) -> String {
    let mut list = String::from("<dl>\n");
    for (what, number) in [
        ("nodes", capacity.nodes.len().to_string()),
        ("nodes left", capacity.nodes_left.to_string()),
        (
            "usable addresses a node",
            capacity.usable_per_subnet.to_string(),
        ),
        ("pod limit", capacity.node_pod_limit.to_string()),
        ("binds first", capacity.binding_limit.as_str().to_owned()),
        ("pods when full", capacity.pods_when_full.to_string()),
    ] {
        list.push_str(&format!("<div><dt>{what}</dt><dd>{number}</dd></div>\n"));
    }
    list.push_str("</dl>\n");
    list
}

fn faults(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "<p class=\"good\">No ranges overlap.</p>\n".to_owned();
    }
    let item = |finding: &Finding| format!("<li>{}</li>\n", escape(&finding.said));
    let items: String = findings.iter().map(item).collect();
    format!(
        "<section class=\"faults\" aria-label=\"Faults\">\n<h2>To be mended</h2>\n<ul>\n{items}</ul>\n</section>\n"
    )
}

fn table(plan: &Plan) -> String {
    let mut table = String::from(
        "<section aria-labelledby=\"nodes\">\n<h2 id=\"nodes\">Nodes</h2>\n<div class=\"scroll\" \
         tabindex=\"0\" role=\"region\" aria-labelledby=\"nodes\">\n<table>\n<thead><tr><th \
         scope=\"col\">node</th><th scope=\"col\">address, by which others reach its pods</th><th \
         scope=\"col\">pod range</th><th scope=\"col\">gateway</th><th scope=\"col\">pod \
         limit</th></tr></thead>\n<tbody>\n",
    );
    for (node, ranges) in plan.nodes() {
        let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
        let gateways = ranges
            .iter()
            .map(|one| range::first_usable(*one).to_string());
        let gateways: Vec<String> = gateways.collect();
        table.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&node.name),
            addresses.join(", "),
            joined(ranges).replace(',', ", "),
            gateways.join(", "),
            node.pod_limit
        ));
    }
    table.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    table
}

/// A number of things that are drawn, which is small.
#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

/// A text inside of HTML, also of an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
