//! The ranges of one family, drawn to scale.

use std::fmt::Write as _;

use ipnet::IpNet;

use super::axis::{Axis, WIDTH};
use super::{count, escape};
use crate::{Node, Plan, PodRange, range};

/// Heights of a drawing.
const LABEL: f64 = 16.0;
const BAR: f64 = 30.0;
const ROW: f64 = 62.0;
/// A range that is narrower gets a mark, so that it is seen at all.
const NARROW: f64 = 3.0;
/// About the width of a letter: what is written has that much room for each, or is left out.
const LETTER: f64 = 7.2;

/// All ranges of a family, and the pod range with its parts; nothing where the cluster has none.
pub(super) fn maps(plan: &Plan, ipv4: bool) -> String {
    let of_family = |range: &IpNet| range.addr().is_ipv4() == ipv4;
    let cluster = &plan.cluster;
    let pods = cluster.pods.iter().find(|pods| of_family(&pods.range));
    let only = |ranges: &[IpNet]| ranges.iter().copied().filter(of_family).collect::<Vec<_>>();
    let rows = [
        ("pods", pods.map(|pods| pods.range).into_iter().collect()),
        ("services", only(&cluster.services)),
        ("nodes", only(&cluster.node_networks)),
    ];
    let rows: Vec<(&str, Vec<IpNet>)> = rows
        .into_iter()
        .filter(|(_, ranges)| !ranges.is_empty())
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let family = if ipv4 { "IPv4" } else { "IPv6" };
    let parts = parts(plan, ipv4);
    let mut text = format!("<h3>{family}</h3>\n");
    text.push_str(&whole(family, &rows, &parts));
    if let Some(pods) = pods {
        text.push_str(&cut(family, *pods, &parts));
    }
    text
}

/// Each node with its part of the family's pod range.
fn parts(plan: &Plan, ipv4: bool) -> Vec<(&Node, IpNet)> {
    let nodes = plan.nodes();
    let of_family = |ranges: &[IpNet]| {
        let mut ranges = ranges.iter().copied();
        ranges.find(|range| range.addr().is_ipv4() == ipv4)
    };
    nodes
        .filter_map(|(node, ranges)| Some((node, of_family(ranges)?)))
        .collect()
}

/// All ranges, each kind in a row of its own.
fn whole(family: &str, rows: &[(&str, Vec<IpNet>)], parts: &[(&Node, IpNet)]) -> String {
    let all = rows.iter().flat_map(|(_, ranges)| ranges);
    let axis = Axis::new(all.map(|range| range::bounds(*range)).collect());
    let height = ROW * count(rows.len()) + LABEL;
    let mut svg = begin(
        &format!("{family}: the ranges of pods, services and nodes, to scale"),
        height,
    );
    for gap in axis.gaps() {
        // Writing to a text cannot fail.
        let _ = writeln!(
            svg,
            "<path class=\"gap\" d=\"M{gap:.2} {LABEL} v{:.2}\"/>",
            height - LABEL
        );
    }
    for (place, (what, ranges)) in rows.iter().enumerate() {
        let y = ROW * count(place) + LABEL;
        for range in ranges {
            svg.push_str(&bar(&axis, what, *range, y));
        }
        if *what == "pods" {
            for (node, part) in parts {
                svg.push_str(&slice(&axis, node, *part, y, false));
            }
        }
    }
    for (a, b, shared) in overlaps(rows) {
        let (first, last) = range::bounds(shared);
        let (x, width) = axis.place(first, last);
        let said = format!("{a} and {b} overlap in {shared}");
        let _ = writeln!(
            svg,
            "<g tabindex=\"0\" role=\"img\" aria-label=\"{said}\"><title>{said}</title><rect \
             class=\"overlap\" data-range=\"{shared}\" x=\"{x:.6}\" y=\"{:.2}\" width=\"{width:.6}\" \
             height=\"{:.2}\"/></g>",
            LABEL - 8.0,
            height - LABEL
        );
    }
    end(
        svg,
        "All widths are to one scale; addresses between the ranges, which nobody has, are left out at the \
         dashed lines. What would be too narrow to be seen has a mark below it.",
    )
}

/// The used front of the pod range, with each node's part.
fn cut(family: &str, pods: PodRange, parts: &[(&Node, IpNet)]) -> String {
    let (base, end_of_all) = range::bounds(pods.range);
    let size = pods.addresses_per_subnet();
    let used = parts.iter().map(|(_, part)| range::bounds(*part).1).max();
    let used = used.unwrap_or(base).saturating_sub(base) / size + 1;
    // A power of two is a range again.
    let shown = used.checked_next_power_of_two().unwrap_or(used);
    let last = base
        .saturating_add(shown.saturating_mul(size).saturating_sub(1))
        .min(end_of_all);
    let axis = Axis::new(vec![(base, last)]);
    let title = format!(
        "{family}: the pod range {}, cut into /{}",
        pods.range, pods.node_prefix
    );
    let mut svg = begin(&title, BAR + LABEL * 2.0 + 6.0);
    let _ = writeln!(
        svg,
        "<rect class=\"free\" x=\"0\" y=\"{LABEL}\" width=\"{WIDTH}\" height=\"{BAR}\"/>"
    );
    for (node, part) in parts {
        svg.push_str(&slice(&axis, node, *part, LABEL, true));
    }
    let (all, given) = (pods.subnets(), parts.len() as u128);
    let free = all.saturating_sub(given);
    let whole_parts = parts
        .iter()
        .all(|(_, part)| part.prefix_len() == pods.node_prefix);
    let about = if whole_parts { "" } else { "about " };
    let shown = if last == end_of_all {
        "the whole of it".to_owned()
    } else {
        format!("its first {shown} parts")
    };
    end(
        svg,
        &format!("{title}: {shown}; {about}{free} of {all} parts are free."),
    )
}

fn begin(title: &str, height: f64) -> String {
    format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"group\" aria-label=\"{}\">\n",
        escape(title)
    )
}

fn end(svg: String, caption: &str) -> String {
    format!(
        "{svg}</svg>\n<figcaption>{}</figcaption>\n</figure>\n",
        escape(caption)
    )
}

fn bar(axis: &Axis, what: &str, range: IpNet, y: f64) -> String {
    let (first, last) = range::bounds(range);
    let (x, width) = axis.place(first, last);
    let said = format!("{what}: {range}, {} addresses", range::size(range));
    let mut text = format!(
        "<g tabindex=\"0\" role=\"img\" aria-label=\"{said}\"><title>{said}</title><rect class=\"range \
         {what}\" data-range=\"{range}\" x=\"{x:.6}\" y=\"{y:.2}\" width=\"{width:.6}\" \
         height=\"{BAR}\"/>"
    );
    if width < NARROW {
        text.push_str(&mark(x + width / 2.0, y + BAR));
    }
    let (anchor, at) = anchor(x, width);
    let label = y + BAR + LABEL - 2.0;
    text.push_str(&format!(
        "<text x=\"{at:.2}\" y=\"{label:.2}\" text-anchor=\"{anchor}\">{what} {range}</text></g>\n"
    ));
    text
}

/// A node's part; with its name where there is room for it.
fn slice(axis: &Axis, node: &Node, part: IpNet, y: f64, named: bool) -> String {
    let (first, last) = range::bounds(part);
    let (x, width) = axis.place(first, last);
    let name = escape(&node.name);
    let said = format!("{name}: {part}");
    // What is too narrow to be stopped at is in the table; of the whole, in the cut as well.
    let focus = if named && width > NARROW {
        " tabindex=\"0\""
    } else {
        ""
    };
    let mut text = format!(
        "<g{focus} role=\"img\" aria-label=\"{said}\"><title>{said}</title><rect class=\"slice\" \
         data-range=\"{part}\" x=\"{x:.6}\" y=\"{y:.2}\" width=\"{width:.6}\" height=\"{BAR}\"/>"
    );
    let middle = x + width / 2.0;
    let written = [
        ("in", name.clone(), y + BAR / 2.0 + 4.0),
        ("below", part.to_string(), y + BAR + LABEL - 2.0),
    ];
    for (class, label, y) in written {
        if named && width > LETTER * count(label.len()) {
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{middle:.2}\" y=\"{y:.2}\" \
                 text-anchor=\"middle\">{label}</text>"
            ));
        }
    }
    text.push_str("</g>\n");
    text
}

/// A mark below a range that is too narrow.
fn mark(x: f64, y: f64) -> String {
    format!("<path class=\"mark\" d=\"M{x:.2} {y:.2} l-4 6 h8 z\"/>")
}

/// Where a label keeps inside of the drawing.
fn anchor(x: f64, width: f64) -> (&'static str, f64) {
    let middle = x + width / 2.0;
    if middle < 120.0 {
        ("start", x.max(0.0))
    } else if middle > WIDTH - 120.0 {
        ("end", (x + width).min(WIDTH))
    } else {
        ("middle", middle)
    }
}

/// Ranges of two kinds that share addresses, and which.
fn overlaps<'a>(rows: &[(&'a str, Vec<IpNet>)]) -> Vec<(&'a str, &'a str, IpNet)> {
    let mut found = Vec::new();
    for (place, (what, ranges)) in rows.iter().enumerate() {
        for (other, others) in rows.iter().take(place) {
            for range in ranges {
                let shared = others.iter().filter_map(|one| range::shared(*one, *range));
                found.extend(shared.map(|shared| (*other, *what, shared)));
            }
        }
    }
    found
}
