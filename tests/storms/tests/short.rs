//! A short storm, as the test run has time for.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use storms::{Options, run};

#[test]
fn a_storm_leaves_nothing() {
    if let Err(reason) = lab::supported() {
        return lab::skip(&reason);
    }
    let options = Options {
        seconds: 12,
        ..Options::default()
    };
    let tally = run(&options).unwrap();
    assert_eq!(tally.findings(), 0, "{tally}");
    assert!(tally.steps() > 100 && tally.kills() > 10, "{tally}");
}
