//! The quick starts of the README that need a runtime, run as they are written there.

use std::path::Path;
use std::process::Command;

use clients::are_here;

/// The groups of commands, and what they need.
const GROUPS: [(&str, &[&str]); 2] = [
    ("containerd", &["containerd", "ctr", "runc", "busybox"]),
    ("podman", &["podman", "runc", "busybox", "curl"]),
];

#[test]
fn the_quick_starts_with_a_runtime() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("target/bin/podnet").is_file() {
        lab::skip("nothing is built in target/bin (make build)");
        return;
    }
    for (group, programs) in GROUPS {
        if !are_here(programs) {
            continue;
        }
        let mut script = Command::new(root.join("tests/documented"));
        let ran = script
            .current_dir(&root)
            .args(["README.md", group])
            .output();
        let ran = ran.unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{group}: {}\n{said}", ran.status);
    }
}
