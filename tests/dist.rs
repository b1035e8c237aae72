//! What `make dist` makes: the tarball, and the Debian package on a root of its own.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "dist/debian.rs"]
mod debian;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use lab::find_tool;
use tempfile::TempDir;
use tests::{binary_folder, write_script};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PLUGINS: [&str; 5] = ["bandwidth", "bridge", "host-local", "loopback", "portmap"];
/// In bytes: a release's programs together have less. Larger ones take minutes to be packed.
const SMALL: u64 = 32 << 20;
/// As of a commit.
const EPOCH: &str = "1700000000";
const TARBALL: &str = "^cni-lite-linux-[a-z0-9]+-vVERSION[.]tgz$";

/// Programs, and what was made of them. It stays where cargo keeps what it builds, until another run makes
/// it anew: several tests look at one.
struct Dist {
    folder: PathBuf,
    said: String,
}

impl Dist {
    /// Packs programs as that version, after `fill` has put them into a folder.
    fn new(label: &str, version: &str, fill: impl FnOnce(&Path)) -> Dist {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dist-{label}"));
        let _ = fs::remove_dir_all(&folder);
        let programs = folder.join("programs");
        let made = folder.join("made");
        fs::create_dir_all(&programs).unwrap();
        fill(&programs);
        let packed = Command::new(Path::new(ROOT).join("packaging/dist"))
            .args([&programs, &made])
            .arg(version)
            .env("SOURCE_DATE_EPOCH", EPOCH)
            .env("TMPDIR", &folder)
            .output()
            .unwrap();
        let said = expect_done(packed);
        Dist { folder, said }
    }

    /// Of the real programs.
    fn real() -> &'static Dist {
        static REAL: OnceLock<Dist> = OnceLock::new();
        REAL.get_or_init(|| Dist::new("real", "7.0.0", copy_built))
    }

    /// Of programs that only say their names and version.
    fn of_scripts() -> &'static Dist {
        static FIRST: OnceLock<Dist> = OnceLock::new();
        FIRST.get_or_init(|| Dist::new("first", "7.0.0", |to| write_scripts(to, "7.0.0")))
    }

    /// The same of the next version.
    fn of_newer_scripts() -> &'static Dist {
        static NEWER: OnceLock<Dist> = OnceLock::new();
        NEWER.get_or_init(|| Dist::new("newer", "7.0.1", |to| write_scripts(to, "7.0.1")))
    }

    fn made(&self) -> PathBuf {
        self.folder.join("made")
    }

    /// What was made with that end of its name; `None`, said aloud, where it could not be made.
    fn find(&self, ending: &str) -> Option<PathBuf> {
        let paths = fs::read_dir(self.made())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let found = paths
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with(ending));
        if found.is_none() {
            lab::skip("no dpkg-deb");
        }
        found
    }

    fn package(&self) -> Option<PathBuf> {
        self.find(".deb")
    }
}

/// A program for each that says its name, and a podnet that calls the real one.
fn write_scripts(programs: &Path, version: &str) {
    for plugin in PLUGINS {
        let text = format!("#!/bin/sh\n# {version}\necho CNI {plugin} plugin\n");
        write_script(&programs.join(format!("{plugin}-lite")), &text);
    }
    let podnet = binary_folder().canonicalize().unwrap().join("podnet");
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", podnet.display());
    write_script(&programs.join("podnet"), &text);
}

/// The real programs, where they are small.
fn copy_built(programs: &Path) {
    let built = binary_folder();
    let names = PLUGINS.map(|plugin| format!("{plugin}-lite"));
    let names = names.iter().map(String::as_str).chain(["podnet"]);
    let sizes = names
        .clone()
        .map(|name| fs::metadata(built.join(name)).unwrap().len());
    if sizes.sum::<u64>() > SMALL {
        return write_scripts(programs, "large");
    }
    for name in names {
        fs::copy(built.join(name), programs.join(name)).unwrap();
    }
}

#[track_caller]
fn expect_done(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program says that succeeds.
#[track_caller]
fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let mut command = Command::new(program);
    expect_done(
        command
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap(),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file and link below a folder, by its path there.
fn files(folder: &Path) -> Vec<String> {
    let found = run("find", &[".", "!", "-type", "d"], folder);
    let mut files: Vec<_> = found.lines().map(|line| line[2..].to_owned()).collect();
    files.sort();
    files
}

#[test]
fn a_tarball_that_installs_itself() {
    let first = Dist::real();
    let made = first.made();
    let tarball = first.find(".tgz").unwrap();
    let name = tarball.file_name().unwrap().to_str().unwrap();
    let pattern = TARBALL.replace("VERSION", "7[.]0[.]0");
    run(
        "sh",
        &[
            "-c",
            "echo $0 | grep -Eqx $1",
            name,
            pattern.trim_matches(['^', '$']),
        ],
        &made,
    );
    run("sha256sum", &["--check", &format!("{name}.sha256")], &made);
    let listed = run("tar", &["-tvzf", name], &made);
    for line in listed.lines() {
        assert!(
            line.contains(" 0/0 ") && line.contains(" 2023-11-1"),
            "{line}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    run("tar", &["-xzf", text(&tarball)], folder.path());
    let mut expected = vec!["LICENSE".to_owned(), "THIRD-PARTY".to_owned()];
    expected.extend(PLUGINS.map(|plugin| format!("{plugin}-lite")));
    expected.insert(expected.len() - 1, "podnet".to_owned());
    assert_eq!(files(folder.path()), expected);
    let others = fs::read_to_string(folder.path().join("THIRD-PARTY")).unwrap();
    for word in [
        "\nserde_json v1",
        "MIT OR Apache-2.0\n",
        "---- tokio-1",
        "Permission is hereby granted",
    ] {
        assert!(others.contains(word), "{word}");
    }
    // Of no machine.
    assert!(!others.contains(" (/") && !others.contains(env!("CARGO_MANIFEST_DIR")));
    let words = [
        "install",
        "--standard-names",
        "--from",
        ".",
        "--bin-dir",
        "bin",
    ];
    run("./podnet", &words, folder.path());
    assert_eq!(files(&folder.path().join("bin")).len(), 12);
}

#[test]
fn the_same_programs_give_the_same_bytes() {
    let first = Dist::of_scripts();
    let again = Dist::new("again", "7.0.0", |to| write_scripts(to, "7.0.0"));
    for ending in [".tgz", ".deb"] {
        if let (Some(first), Some(again)) = (first.find(ending), again.find(ending)) {
            assert!(
                fs::read(first).unwrap() == fs::read(again).unwrap(),
                "{ending}"
            );
        }
    }
}

#[test]
fn programs_that_are_not_static_say_so() {
    let Some(shell) = ["/bin/dash", "/bin/bash"]
        .into_iter()
        .find(|it| Path::new(it).exists())
    else {
        return lab::skip("no shell to stand for a program");
    };
    let dist = Dist::new("dynamic", "7.0.0", |programs| {
        write_scripts(programs, "some");
        fs::copy(shell, programs.join("bridge-lite")).unwrap();
    });
    let line = dist.said.lines().next().unwrap();
    let words = "dist: not static, they need this system's C library or a newer one: ";
    let names = line.strip_prefix(words).unwrap();
    assert!(names.split(' ').any(|name| name == "bridge-lite"), "{line}");
    if let Some(package) = dist.package() {
        let depends = run(
            "dpkg-deb",
            &["-f", text(&package), "Depends"],
            Path::new("/"),
        );
        assert!(depends.starts_with("libc6"), "{depends}");
    }
}

#[test]
fn what_is_in_the_package() {
    let first = Dist::real();
    let Some(package) = first.package() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let field = |name: &str| {
        let value = run("dpkg-deb", &["-f", text(&package), name], Path::new("/"));
        value.trim().to_owned()
    };
    assert_eq!(
        (field("Package"), field("Version")),
        ("cni-lite".into(), "7.0.0".into())
    );
    let machine = run("dpkg", &["--print-architecture"], Path::new("/"));
    assert_eq!(field("Architecture"), machine.trim());
    assert!(field("Installed-Size").parse::<u32>().unwrap() > 100);
    assert!(field("Maintainer").contains('<') && field("Description").contains('\n'));

    // Nobody's but root's, and nothing that only its owner may read.
    let listed = run("dpkg-deb", &["-c", text(&package)], Path::new("/"));
    for line in listed.lines() {
        let good = ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"];
        assert!(
            good.contains(&&line[..10]) && line.contains(" root/root "),
            "{line}"
        );
    }
    run("dpkg-deb", &["-R", text(&package), "."], folder.path());
    run(
        "md5sum",
        &["--check", "--quiet", "DEBIAN/md5sums"],
        folder.path(),
    );
    let all = files(folder.path());
    let programs: Vec<_> = all
        .iter()
        .filter_map(|file| file.strip_prefix("opt/cni/bin/"))
        .collect();
    // No name that another's package or person may have put there.
    assert_eq!(programs, PLUGINS.map(|plugin| format!("{plugin}-lite")));
    for file in [
        "usr/bin/podnet",
        "usr/share/bash-completion/completions/podnet",
        "usr/share/zsh/vendor-completions/_podnet",
        "usr/share/fish/vendor_completions.d/podnet.fish",
        "usr/share/man/man1/podnet.1.gz",
        "usr/share/man/man1/podnet-install.1.gz",
        "usr/share/doc/cni-lite/copyright",
        "usr/share/doc/cni-lite/docs/bridge.md",
        "usr/share/doc/cni-lite/examples/10-k8nd.conflist",
    ] {
        assert!(all.iter().any(|have| have == file), "{file}");
    }
    expect_links(folder.path(), &all);
    let outside = |file: &&String| {
        !["DEBIAN/", "opt/cni/bin/", "usr/bin/", "usr/share/"]
            .iter()
            .any(|folder| file.starts_with(folder))
    };
    assert_eq!(all.iter().filter(outside).count(), 0, "{all:?}");
    let log = run(
        "gzip",
        &["-dc", "usr/share/doc/cni-lite/changelog.gz"],
        folder.path(),
    );
    assert!(
        log.starts_with("cni-lite (7.0.0) unstable; urgency=medium\n"),
        "{log}"
    );
    assert!(log.contains("  Tue, 14 Nov 2023 22:13:20 +0000\n"), "{log}");
}

/// That no link of a page leads out of the package, and that those into it are links still.
#[track_caller]
fn expect_links(folder: &Path, all: &[String]) {
    let mut targets = Vec::new();
    for page in all.iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if !target.contains("://") {
                let file = folder.join(page).with_file_name(target);
                assert!(target.is_empty() || file.exists(), "{page}: {target}");
                targets.push(target.to_owned());
            }
        }
    }
    for target in [
        "docs/install.md",
        "../README.md",
        "../examples/10-k8nd-lite.conflist",
    ] {
        assert!(targets.iter().any(|have| have == target), "{target}");
    }
}
