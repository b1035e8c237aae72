use super::*;
use crate::overlap::Case;
use crate::{Cluster, Document};

fn page_of(text: &str) -> String {
    let document = Document::parse("c", text).unwrap();
    let plan = Plan::new(Cluster::new(document.read().unwrap()).unwrap()).unwrap();
    let capacity = Capacity::of(&plan.cluster).unwrap();
    let findings = Case::of(&plan.cluster).findings(None);
    page(&plan, &capacity, &findings)
}

const DUAL: &str = "\
podSubnet: 10.244.0.0/16,fd00:10:244::/48
serviceSubnet: 10.96.0.0/16,fd00:10:96::/108
nodeSubnet: 192.168.10.0/24,fd01::/64
nodes:
- {name: a, address: '192.168.10.1,fd01::1'}
- {name: b, address: '192.168.10.2,fd01::2'}
";

/// The attribute of the first rectangle of a class that has the range.
fn drawn(page: &str, class: &str, range: &str, attribute: &str) -> f64 {
    let begin = format!("<rect class=\"{class}\" data-range=\"{range}\"");
    let (_, rest) = page
        .split_once(&begin)
        .unwrap_or_else(|| panic!("no {class} {range}"));
    let (_, rest) = rest.split_once(&format!(" {attribute}=\"")).unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn it_stands_alone_and_has_everything() {
    let page = page_of(DUAL);
    for said in [
        "<title>Pod network k8nd-pod-network</title>",
        "prefers-color-scheme: dark",
        "No ranges overlap.",
        "10.244.1.0/24 via 192.168.10.2",
        "fd00:10:244:1::/64 via fd01::2",
        "<th scope=\"row\">b</th><td>192.168.10.2, fd01::2</td>",
    ] {
        assert!(page.contains(said), "{said}");
    }
    for elsewhere in [
        "http:", "https:", "<script", "<link", "url(", "@import", "NaN", "inf",
    ] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    // Every drawing, and all that is drawn and named, says what it is.
    let figures = page.matches("<svg ").count();
    assert_eq!(
        (figures, page.matches("role=\"group\" aria-label=").count()),
        (5, 5)
    );
    assert_eq!(
        page.matches("<g tabindex=\"0\" role=\"img\" aria-label=")
            .count(),
        6 + 4 + 2
    );
}

#[test]
fn widths_are_to_scale() {
    let page = page_of(DUAL);
    let width = |class: &str, range: &str| drawn(&page, class, range, "width");
    let pods = width("range pods", "10.244.0.0/16");
    for (class, range, share) in [
        ("range services", "10.96.0.0/16", 1.0),
        ("range nodes", "192.168.10.0/24", 256.0),
        ("slice", "10.244.1.0/24", 256.0),
    ] {
        let found = pods / width(class, range);
        assert!((found / share - 1.0).abs() < 1e-3, "{range}: {found}");
    }
    let first = drawn(&page, "slice", "10.244.0.0/24", "x");
    let second = drawn(&page, "slice", "10.244.1.0/24", "x");
    assert!((second - first - pods / 256.0).abs() < 1e-3);
}

#[test]
fn overlaps_are_drawn_where_they_are() {
    let text = DUAL.replace("10.96.0.0/16", "10.244.128.0/17");
    let page = page_of(&text);
    assert!(page.contains("<h2>To be mended</h2>"));
    let of = |class: &str, range: &str| {
        (
            drawn(&page, class, range, "x"),
            drawn(&page, class, range, "width"),
        )
    };
    assert_eq!(
        of("overlap", "10.244.128.0/17"),
        of("range services", "10.244.128.0/17")
    );
    let (_, pods) = of("range pods", "10.244.0.0/16");
    assert!((of("overlap", "10.244.128.0/17").1 * 2.0 / pods - 1.0).abs() < 1e-6);
    assert_eq!(page_of(DUAL).matches("class=\"overlap\"").count(), 0);
}

#[test]
fn odd_clusters() {
    let bare = page_of("podSubnet: 8000::/1\nnodePrefix: 126");
    assert!(bare.contains("There is no node yet."));
    let nodes: String = (0..40)
        .map(|number| format!("- name: n{number}\n"))
        .collect();
    let many = page_of(&format!("podSubnet: 10.0.0.0/8\nnodes:\n{nodes}"));
    assert!(many.contains("16 more nodes are in the table."));
    assert!(many.contains("no address to lead to"));
    assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
}
