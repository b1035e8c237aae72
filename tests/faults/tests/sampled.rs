//! A sample of all faults, as the test run has time for.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use faults::{Options, run};

#[test]
fn a_sample_of_all_faults_leaves_nothing() {
    if let Err(reason) = lab::supported().and_then(|()| lab::trace::supported()) {
        return lab::skip(&reason);
    }
    for some in [
        "nft-dual",
        "legacy-dual/*/*/kill",
        "nftables-single/*/*/kill",
    ] {
        let options = Options {
            only: some.parse().unwrap(),
            sample: Some(1),
            seed: 1,
            jobs: 4,
            against: None,
        };
        let tally = run(&options).unwrap();
        assert_eq!(tally.findings(), 0, "{some}:\n{tally}");
    }
}
