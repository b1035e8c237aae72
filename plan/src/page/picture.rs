//! Nodes on their segment, their bridges, and the next hops between them.

use std::fmt::Write as _;

use ipnet::IpNet;

use super::axis::WIDTH;
use super::{count, escape};
use crate::{Node, Plan, range};

/// How many nodes are drawn; the others are in the table.
const DRAWN: usize = 24;
/// How many stand in a row.
const IN_ROW: usize = 3;
const BOX: f64 = 300.0;
const LINE: f64 = 17.0;
/// Above a box: the segment, and what leads to the node.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 26.0;

/// The picture; a word where there is no node.
pub(super) fn picture(plan: &Plan) -> String {
    let all = plan.cluster.nodes.len();
    if all == 0 {
        return "<p>There is no node yet.</p>\n".to_owned();
    }
    let drawn = all.min(DRAWN);
    let families = plan.cluster.pods.len();
    let rows = drawn.div_ceil(IN_ROW);
    let above = ABOVE + LINE * count(families);
    let inner = LINE * (1.0 + 2.0 * count(families)) + LINE * count(families) + 14.0;
    let row = above + inner + BELOW;
    let height = row * count(rows);
    let mut svg = format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"group\" aria-label=\"Nodes, their bridges \
         and next hops\">\n"
    );
    // Writing to a text cannot fail.
    if rows > 1 {
        let _ = writeln!(
            svg,
            "<path class=\"segment\" d=\"M6 18 V{:.2}\"/>",
            row * count(rows - 1) + 18.0
        );
    }
    for place in 0..rows {
        let y = row * count(place) + 18.0;
        let _ = writeln!(
            svg,
            "<path class=\"segment\" d=\"M6 {y:.2} H{:.2}\"/>",
            WIDTH - 6.0
        );
    }
    for (place, (node, ranges)) in plan.nodes().take(drawn).enumerate() {
        let x = 22.0 + (BOX + 30.0) * count(place % IN_ROW);
        let y = row * count(place / IN_ROW) + 18.0;
        svg.push_str(&one(plan, node, ranges, (x, y), (above - 18.0, inner)));
    }
    let more = match all - drawn {
        0 => String::new(),
        more => format!(" {more} more nodes are in the table."),
    };
    format!(
        "{svg}</svg>\n<figcaption>Every node has the routes that stand above the others, and none to its own \
         pods, which it reaches by its bridge.{more}</figcaption>\n</figure>\n"
    )
}

/// A node below the segment; `at` is where its line begins, `sizes` the length of that and the height
/// of the box.
fn one(plan: &Plan, node: &Node, ranges: &[IpNet], at: (f64, f64), sizes: (f64, f64)) -> String {
    let ((x, y), (down, inner)) = (at, sizes);
    let hops: Vec<String> = ranges.iter().map(|range| hop(node, *range)).collect();
    let name = escape(&node.name);
    let said = format!("{name}: {}", hops.join("; "));
    let mut svg = format!(
        "<g tabindex=\"0\" role=\"img\" aria-label=\"{said}\"><title>{said}</title><path class=\"link\" \
         d=\"M{:.2} {y:.2} v{down:.2}\"/>",
        x + 12.0
    );
    for (line, hop) in hops.iter().enumerate() {
        let y = y + LINE * (count(line) + 1.0);
        svg.push_str(&format!(
            "<text class=\"hop\" x=\"{:.2}\" y=\"{y:.2}\">{hop}</text>",
            x + 20.0
        ));
    }
    let top = y + down;
    svg.push_str(&format!(
        "<rect class=\"node\" x=\"{x:.2}\" y=\"{top:.2}\" width=\"{BOX}\" height=\"{inner:.2}\" rx=\"6\"/>\
         <text class=\"name\" x=\"{:.2}\" y=\"{:.2}\">{name}</text>",
        x + 12.0,
        top + LINE
    ));
    for (line, text) in lines(plan, node, ranges).iter().enumerate() {
        let y = top + LINE * (count(line) + 2.0);
        svg.push_str(&format!(
            "<text x=\"{:.2}\" y=\"{y:.2}\">{}</text>",
            x + 12.0,
            escape(text)
        ));
    }
    svg.push_str("</g>\n");
    svg
}

/// What leads to a node's pods.
fn hop(node: &Node, range: IpNet) -> String {
    match node.address(range.addr().is_ipv4()) {
        Some(address) => format!("{range} via {address}"),
        None => format!("{range}: no address to lead to"),
    }
}

/// What is in a node's box.
fn lines(plan: &Plan, node: &Node, ranges: &[IpNet]) -> Vec<String> {
    let device = node.device.as_deref().unwrap_or("uplink");
    let bridge = &plan.cluster.bridge;
    let mut lines = Vec::new();
    for range in ranges {
        let address = node.address(range.addr().is_ipv4());
        let address = address.map_or("none".to_owned(), |address| address.to_string());
        lines.push(format!("{device} {address}"));
    }
    for range in ranges {
        lines.push(format!("{bridge} {}", range::first_usable(*range)));
    }
    for range in ranges {
        lines.push(format!("pods {range}"));
    }
    lines
}
