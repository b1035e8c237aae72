//! The page that `podnet plan write` writes, opened in a browser.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ipnet::IpNet;
use serde_json::Value;
use tests::podnet;

/// With the service range inside of the pod range.
const CLUSTER: &str = "\
podSubnet: 10.244.0.0/16,fd00:10:244::/48
serviceSubnet: 10.244.192.0/18,fd00:10:96::/50
nodeSubnet: 192.168.10.0/24,fd01::/56
device: eth0
nodes:
- {name: worker-0, address: '192.168.10.10,fd01::10'}
- {name: worker-1, address: '192.168.10.11,fd01::11'}
- {name: worker-2, address: '192.168.10.12,fd01::12', podCIDR: 10.244.9.0/24}
- {name: worker-3, address: '192.168.10.13,fd01::13'}
";

/// Notes what is drawn, where it is on the screen, and how it can be read.
const LOOK: &str = r#"<script>
const style = getComputedStyle(document.body);
const drawn = [...document.querySelectorAll("rect[data-range]")].map(one => {
    const box = one.getBoundingClientRect();
    const svg = [...document.querySelectorAll("svg")].indexOf(one.closest("svg"));
    return { svg, class: one.getAttribute("class"), range: one.dataset.range, x: box.x, width: box.width,
        fill: getComputedStyle(one).fill };
});
const stops = [...document.querySelectorAll("[tabindex], a")];
const look = {
    drawn, ink: style.color, paper: style.backgroundColor,
    stops: stops.length,
    silent: stops.filter(one => !(one.getAttribute("aria-label") || one.textContent)).length,
    reached: stops.filter(one => { one.focus(); return document.activeElement === one; }).length,
    tooWide: document.documentElement.scrollWidth > innerWidth,
};
document.body.innerHTML = "<pre>LOOK" + JSON.stringify(look) + "LOOK</pre>";
</script>"#;

/// The browser of this machine; `None`, said aloud and counted, where there is none.
fn browser() -> Option<PathBuf> {
    let names = ["chromium-headless-shell", "chromium", "google-chrome"];
    let found = names.into_iter().find_map(lab::find_tool);
    if found.is_none() {
        lab::skip("no Chromium to open a page with");
    }
    found
}

/// Opens a page in light or in dark mode.
fn open(browser: &Path, dark: bool, options: &[&str], file: &Path) -> String {
    let scheme = i32::from(!dark);
    let output = Command::new("timeout")
        .arg("120")
        .arg(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .args([
            "--window-size=1100,1900",
            &format!("--blink-settings=preferredColorScheme={scheme}"),
        ])
        .args(options)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the page says of itself.
fn look(browser: &Path, dark: bool, folder: &Path) -> Value {
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let watched = folder.join("watched.html");
    fs::write(&watched, page.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
    let dom = open(browser, dark, &["--dump-dom"], &watched);
    let text = dom.split("LOOK").nth(1).unwrap_or(&dom);
    serde_json::from_str(text).unwrap()
}

/// The brightness of a colour as `rgb(1, 2, 3)` (WCAG 2, "relative luminance").
fn luminance(colour: &Value) -> f64 {
    let text = colour.as_str().unwrap();
    let numbers = text
        .trim_start_matches("rgb(")
        .trim_end_matches(')')
        .split(", ");
    let linear = |number: &str| {
        let part = number.parse::<f64>().unwrap() / 255.0;
        if part <= 0.04045 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    let parts: Vec<f64> = numbers.map(linear).collect();
    0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
}

/// How many addresses a range has, and which is the first.
fn counted(range: &str) -> (f64, f64) {
    match range.parse().unwrap() {
        IpNet::V4(net) => (
            2_f64.powi(32 - i32::from(net.prefix_len())),
            f64::from(u32::from(net.network())),
        ),
        IpNet::V6(net) => {
            // The first 64 bits are exact enough.
            let [a, b, c, d, ..] = net.network().segments().map(f64::from);
            let high = ((a * 65536.0 + b) * 65536.0 + c) * 65536.0 + d;
            (
                2_f64.powi(128 - i32::from(net.prefix_len())),
                high * 2_f64.powi(64),
            )
        }
    }
}

/// That everything in one drawing is as wide as it has addresses, and stands where they are.
fn expect_to_scale(look: &Value) {
    let drawn = look["drawn"].as_array().unwrap();
    let mut compared = 0;
    for one in drawn {
        for other in drawn.iter().filter(|other| other["svg"] == one["svg"]) {
            let of = |one: &Value| {
                let (size, first) = counted(one["range"].as_str().unwrap());
                (
                    size,
                    first,
                    one["width"].as_f64().unwrap(),
                    one["x"].as_f64().unwrap(),
                )
            };
            let ((size, first, width, x), (size2, first2, width2, x2)) = (of(one), of(other));
            // The browser rounds to a 64th of a pixel.
            let expected = width2 * size / size2;
            assert!(
                (width - expected).abs() < 0.05 + expected * 0.01,
                "{one} {other}"
            );
            if first >= first2 && first < first2 + size2 {
                let expected = x2 + width2 * (first - first2) / size2;
                assert!((x - expected).abs() < 0.1, "{one} {other}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn the_page_is_to_scale_and_can_be_read_in_light_and_in_dark() {
    let Some(browser) = browser() else { return };
    let desk = tempfile::tempdir().unwrap();
    fs::write(desk.path().join("cluster.yaml"), CLUSTER).unwrap();
    let words = ["plan", "write", "-f", "cluster.yaml", "--out", "net"];
    // They overlap.
    assert_eq!(podnet(desk.path(), &words, "").status, 1);
    let folder = desk.path().join("net");
    let mut papers = Vec::new();
    for (dark, mode) in [(false, "light"), (true, "dark")] {
        let look = look(&browser, dark, &folder);
        expect_to_scale(&look);
        let drawn = look["drawn"].as_array().unwrap();
        let of_class = |class: &str| drawn.iter().filter(|one| one["class"] == class).count();
        // Each part stands in the whole and in the cut, of both families.
        assert_eq!(
            (
                of_class("slice"),
                of_class("range pods"),
                of_class("overlap")
            ),
            (16, 2, 1)
        );
        let overlap = drawn.iter().find(|one| one["class"] == "overlap").unwrap();
        let fill = overlap["fill"].as_str().unwrap().trim_start_matches("rgb(");
        let parts: Vec<u32> = fill
            .trim_end_matches(')')
            .split(", ")
            .map(|part| part.parse().unwrap())
            .collect();
        assert!(parts[0] > 2 * parts[1].max(parts[2]), "{fill} is not red");

        let (ink, paper) = (luminance(&look["ink"]), luminance(&look["paper"]));
        let contrast = (ink.max(paper) + 0.05) / (ink.min(paper) + 0.05);
        assert!(contrast > 7.0, "{mode}: {contrast}");
        papers.push(paper);
        assert_eq!(
            (&look["silent"], &look["tooWide"]),
            (&0.into(), &false.into()),
            "{mode}"
        );
        assert_eq!(look["reached"], look["stops"], "{mode}");
        assert!(look["stops"].as_u64().unwrap() > 15, "{mode}");

        // To be looked at by people.
        let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{mode}.png"));
        let option = format!("--screenshot={}", picture.display());
        open(&browser, dark, &[&option], &folder.join("report.html"));
        let png = fs::read(&picture).unwrap();
        assert!(
            png.starts_with(b"\x89PNG") && png.len() > 20_000,
            "{}",
            png.len()
        );
    }
    assert!(papers[0] > 0.8 && papers[1] < 0.1, "{papers:?}");
}
