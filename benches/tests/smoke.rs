//! Everything is measured once, on small nodes: that it works, and that nothing is missing from the
//! results. How long anything took is no test's matter.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use benches::{Case, Options, Report, Row, Rules, Side, Unit};
use clap::Parser;

/// The rows that a case must have for each backend and number, in their order.
const EXPECTED: [(Case, &[&str]); 9] = [
    (
        Case::Chain,
        &[
            "ADD",
            "ADD bridge",
            "ADD portmap",
            "ADD bandwidth",
            "CHECK",
            "CHECK bridge",
            "CHECK portmap",
            "CHECK bandwidth",
            "DEL",
            "DEL bandwidth",
            "DEL portmap",
            "DEL bridge",
        ],
    ),
    (
        Case::AtOnce,
        &[
            "ADD a second",
            "DEL a second",
            "ADD p50",
            "ADD p99",
            "DEL p50",
            "DEL p99",
        ],
    ),
    (Case::Pods, &["ADD", "CHECK", "DEL", "connections"]),
    (Case::Store, &["ADD", "CHECK", "DEL"]),
    (Case::Ports, &["ADD", "CHECK", "DEL"]),
    (
        Case::Gc,
        &[
            "GC",
            "GC bridge",
            "GC portmap",
            "GC bandwidth",
            "GC of one",
            "GC of one bridge",
            "GC of one portmap",
            "GC of one bandwidth",
        ],
    ),
    (
        Case::Traffic,
        &[
            "pod to pod",
            "ping of pod by pod",
            "100 Mbit/s in",
            "100 Mbit/s out",
        ],
    ),
    (
        Case::Processes,
        &[
            "ADD processes",
            "ADD system calls",
            "CHECK processes",
            "CHECK system calls",
            "DEL processes",
            "DEL system calls",
            "bandwidth peak",
            "bridge peak",
            "host-local peak",
            "portmap peak",
        ],
    ),
    (
        Case::Sizes,
        &["bridge", "portmap", "bandwidth", "host-local"],
    ),
];

fn quick() -> Option<Report> {
    if let Err(reason) = lab::supported() {
        lab::skip(&reason);
        return None;
    }
    let ours = tests::binary_folder();
    let options = Options::parse_from(["bench", "--quick", "--ours", ours.to_str().unwrap()]);
    let report = benches::run(&options).unwrap();
    assert_eq!(report.failed, []);
    Some(report)
}

/// The rows of a case, split where their subject changes.
fn groups(report: &Report, case: Case) -> Vec<Vec<&Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in report.rows.iter().filter(|row| row.subject.case == case) {
        match groups.last_mut() {
            Some(group) if group[0].subject == row.subject => group.push(row),
            _ => groups.push(vec![row]),
        }
    }
    groups
}

/// Whether a contender must have a value in a row.
fn must_have(report: &Report, side: Side, row: &Row) -> bool {
    let Some(contender) = report.contenders.iter().find(|it| it.side == side) else {
        return false;
    };
    let can = row.subject.rules.is_none_or(|rules| contender.can(rules));
    // Others may not know GC, and refuse a CHECK of what they have just made.
    let optional = row.subject.case == Case::Gc || row.what.starts_with("CHECK");
    can && (side == Side::Ours || !optional)
}

#[test]
fn one_round_of_everything() {
    let Some(report) = quick() else {
        return;
    };
    for (case, expected) in EXPECTED {
        let groups = groups(&report, case);
        if case == Case::Processes && groups.is_empty() {
            let why = report.skipped.iter().find(|it| it.what == "processes");
            lab::skip(&why.unwrap().why);
            continue;
        }
        assert!(!groups.is_empty(), "{case:?}");
        for group in groups {
            let what: Vec<_> = group.iter().map(|row| row.what.as_str()).collect();
            assert_eq!(what, expected, "{:?}", group[0].subject);
            for row in group {
                expect_values(&report, row);
            }
        }
    }
    let with = |rules| {
        report
            .rows
            .iter()
            .any(|row| row.subject.rules == Some(rules))
    };
    assert!(with(Rules::IptablesNft) && with(Rules::Nftables));
    expect_steps(&report);
    expect_floor(&report);
    let text = report.text();
    assert!(text.contains("One pod at a time\n"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

/// Each plugin's own log has told of each of its calls.
#[track_caller]
fn expect_steps(report: &Report) {
    let groups = groups(report, Case::Steps);
    assert!(!groups.is_empty());
    for group in groups {
        for plugin in ["host-local", "bridge", "portmap", "bandwidth"] {
            for verb in ["ADD", "CHECK", "DEL"] {
                let all = format!("{verb} {plugin}: all");
                let row = group.iter().find(|row| row.what == all);
                let values = row.and_then(|row| row.series.get(&Side::Ours));
                assert_eq!(values.map(Vec::len), Some(1), "{all}");
            }
        }
    }
}

/// The floor is in it where its program is: for what a whole chain does, but looks at nothing.
#[track_caller]
fn expect_floor(report: &Report) {
    if !tests::binary_folder().join("floor").is_file() {
        lab::skip("no floor beside the plugins");
        return;
    }
    for row in &report.rows {
        let floor = row.series.get(&Side::Floor).map_or(0, Vec::len);
        let must = match row.subject.case {
            Case::Chain | Case::Pods => ["ADD", "DEL"].contains(&row.what.as_str()),
            case => case == Case::AtOnce,
        };
        assert_eq!(floor, usize::from(must), "{row:?}\n{:?}", report.skipped);
    }
}

#[track_caller]
fn expect_values(report: &Report, row: &Row) {
    for side in [Side::Ours, Side::Theirs] {
        let values = row.series.get(&side);
        if must_have(report, side, row) {
            assert_eq!(values.map(Vec::len), Some(1), "{side:?} {row:?}");
        }
        for value in values.into_iter().flatten() {
            assert!(value.is_finite() && *value > 0.0, "{side:?} {row:?}");
        }
    }
    // Three plugins, and host-local for the first of them.
    if row.what == "ADD processes" || row.what == "DEL processes" {
        assert!(row.series[&Side::Ours][0] >= 4.0, "{row:?}");
    }
    if row.unit == Unit::Kilobytes {
        assert!(row.series[&Side::Ours][0] > 100.0, "{row:?}");
    }
}

/// Plugins that fail take their own case away, and no other.
#[test]
fn a_case_that_fails() {
    if let Err(reason) = lab::supported() {
        lab::skip(&reason);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for plugin in ["bridge", "portmap", "bandwidth", "host-local"] {
        let file = folder.path().join(plugin);
        tests::write_script(&file, "#!/bin/sh\necho no such luck >&2\nexit 1\n");
    }
    let folder = folder.path().to_str().unwrap();
    let words = ["bench", "--quick", "--ours", folder, "--against", folder];
    let only = ["--only", "chain", "--only", "sizes"];
    let report = benches::run(&Options::parse_from(words.iter().chain(&only))).unwrap();
    let [failed] = &report.failed[..] else {
        panic!("{:?}", report.failed);
    };
    assert_eq!(failed.what, Case::Chain.title());
    assert!(failed.why.contains("no such luck"), "{failed:?}");
    assert!(
        report
            .rows
            .iter()
            .all(|row| row.subject.case == Case::Sizes)
    );
    assert_eq!(report.rows.len(), 4);
    assert!(report.text().contains("\nFailed\n  One pod at a time: "));
}
