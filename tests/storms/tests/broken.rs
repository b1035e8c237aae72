//! Storms over plugins that are broken on purpose: what is wrong with them is found.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;

use storms::{Flaw, Options, Tally, run};
use tests::{binary_folder, write_script};

const PLUGINS: [&str; 4] = ["bridge", "portmap", "bandwidth", "host-local"];

/// A storm over plugins of which one is a script, which may run the `$real` one. `None`, said aloud and
/// counted, where this machine cannot.
fn storm_over(broken: &str, script: &str) -> Option<Tally> {
    if let Err(reason) = lab::supported() {
        lab::skip(&reason);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let built = binary_folder().canonicalize().unwrap();
    for plugin in PLUGINS {
        let real = built.join(format!("{plugin}-lite"));
        let file = folder.path().join(plugin);
        if plugin == broken {
            write_script(
                &file,
                &format!("#!/bin/sh\nreal={}\n{script}\n", real.display()),
            );
        } else {
            symlink(real, file).unwrap();
        }
    }
    let options = Options {
        seconds: 4,
        attachments: 16,
        workers: 4,
        against: Some(folder.path().to_owned()),
        quiet: true,
        ..Options::default()
    };
    let tally = run(&options).unwrap();
    (tally.steps() > 0).then_some(tally)
}

#[test]
fn a_del_that_does_nothing_is_a_leak() {
    let skip = "case $CNI_COMMAND$CNI_CONTAINERID in DELstorm*) exec cat > /dev/null;; esac";
    let Some(tally) = storm_over("portmap", &format!("{skip}\nexec $real")) else {
        return;
    };
    assert!(tally.found(Flaw::Leak) > 0, "{tally}");
}

#[test]
fn addresses_given_twice_are_noticed() {
    // It forgets who has which address before each ADD.
    let forget = r#"
        config=$(cat)
        store=$(printf %s "$config" | sed 's/.*"dataDir" *: *"\([^"]*\)".*/\1/')
        case $CNI_COMMAND$CNI_CONTAINERID in
            ADDstorm*) rm -f "$store"/*/10.* "$store"/*/fd* "$store"/*/last*;;
        esac
        printf %s "$config" | $real"#;
    let Some(tally) = storm_over("host-local", forget) else {
        return;
    };
    assert!(tally.found(Flaw::Twice) > 0, "{tally}");
}
