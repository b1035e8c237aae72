//! The package on a root of its own.

use super::*;

/// A root that dpkg installs into, with the scripts of packages run outside of it.
struct Debian(TempDir);

impl Debian {
    /// `None`, said aloud, where there is no dpkg, or nobody may own files there.
    fn new() -> Option<Debian> {
        if let Err(reason) = lab::supported() {
            lab::skip(&reason);
            return None;
        }
        if find_tool("dpkg").is_none() {
            lab::skip("no dpkg");
            return None;
        }
        let debian = Debian(tempfile::tempdir().unwrap());
        let own = debian.path("var/lib/dpkg");
        for folder in ["info", "updates"] {
            fs::create_dir_all(own.join(folder)).unwrap();
        }
        fs::write(own.join("status"), "").unwrap();
        Some(debian)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self, plugin: &str) -> Vec<u8> {
        fs::read(self.path("opt/cni/bin").join(plugin)).unwrap()
    }

    #[track_caller]
    fn dpkg(&self, arguments: &[&str]) -> String {
        let options = [
            "--force-script-chrootless",
            // There is no C library there, which programs may need that are not static.
            "--force-depends",
            "--force-bad-path",
            "--log=/dev/null",
        ];
        let root = format!("--root={}", self.0.path().display());
        // A script of the package may wait for what never comes.
        let dpkg = ["300", "dpkg", &root];
        let words = [&dpkg[..], &options[..], arguments].concat();
        run("timeout", &words, Path::new("/"))
    }

    /// Runs podnet as it is installed there.
    #[track_caller]
    fn podnet(&self, command: &str, more: &[&str]) -> String {
        let podnet = self.path("usr/bin/podnet");
        let (bin, conf) = (self.path("opt/cni/bin"), self.path("etc/cni/net.d"));
        let words = [command, "--bin-dir", text(&bin), "--conf-dir", text(&conf)];
        run(text(&podnet), &[&words[..], more].concat(), Path::new("/"))
    }

    /// What is there beside dpkg's own.
    fn files(&self) -> Vec<String> {
        let mut files = files(self.0.path());
        files.retain(|file| !file.starts_with("var/lib/dpkg"));
        files
    }
}

#[test]
fn a_package_comes_is_exchanged_and_goes() {
    let dist = Dist::real();
    let (Some(debian), Some(first)) = (Debian::new(), dist.package()) else {
        return;
    };
    debian.dpkg(&["--install", text(&first)]);
    let status = debian.dpkg(&["--status", "cni-lite"]);
    assert!(
        status.contains("\nStatus: install ok installed\n"),
        "{status}"
    );
    let version = run(
        text(&debian.path("usr/bin/podnet")),
        &["--version"],
        Path::new("/"),
    );
    assert!(version.starts_with("podnet "), "{version}");
    let plugin = debian.path("opt/cni/bin/loopback-lite");
    let about = run(text(&plugin), &["--version"], Path::new("/"));
    assert!(about.starts_with("CNI loopback"), "{about}");
    assert_eq!(debian.dpkg(&["--verify", "cni-lite"]), "");

    let newer = Dist::of_newer_scripts();
    let before = debian.read("bridge-lite");
    debian.dpkg(&["--install", text(&newer.package().unwrap())]);
    assert!(debian.read("bridge-lite") != before);
    assert!(!debian.path("opt/cni/bin/bridge").exists());
    debian.dpkg(&["--purge", "cni-lite"]);
    assert_eq!(debian.files(), [""; 0]);
}

#[test]
fn standard_names_follow_the_package() {
    let dist = Dist::of_scripts();
    let (Some(debian), Some(first)) = (Debian::new(), dist.package()) else {
        return;
    };
    fs::create_dir_all(debian.path("opt/cni/bin")).unwrap();
    fs::write(debian.path("opt/cni/bin/bridge"), "another's").unwrap();
    debian.dpkg(&["--install", text(&first)]);
    assert_eq!(debian.read("bridge"), b"another's");
    let example = debian.path("usr/share/doc/cni-lite/examples/10-k8nd.conflist");
    let (bin, example) = (debian.path("opt/cni/bin"), text(&example));
    let words = ["--standard-names", "--from", text(&bin), "--conf", example];
    debian.podnet("install", &words);
    assert!(debian.read("bridge") == debian.read("bridge-lite"));
    assert!(!bin.join("podnet").exists());

    let newer = Dist::of_newer_scripts();
    debian.dpkg(&["--install", text(&newer.package().unwrap())]);
    for plugin in PLUGINS {
        assert!(
            debian.read(plugin) == debian.read(&format!("{plugin}-lite")),
            "{plugin}"
        );
    }
    debian.dpkg(&["--remove", "cni-lite"]);
    // A person's configuration stays.
    let left = [
        "etc/cni/net.d/.cni-lite-installed",
        "etc/cni/net.d/10-k8nd.conflist",
        "opt/cni/bin/bridge",
    ];
    assert_eq!(debian.files(), left);
    assert_eq!(debian.read("bridge"), b"another's");
}

#[test]
fn what_the_package_owns_stays() {
    let dist = Dist::of_scripts();
    let (Some(debian), Some(package)) = (Debian::new(), dist.package()) else {
        return;
    };
    let programs = dist.folder.join("programs");
    let bin = debian.path("opt/cni/bin");
    // By a tarball, with what is then in the package.
    let (from, to) = (text(&programs), text(&bin));
    let words = format!("install --standard-names --from {from} --bin-dir {to}");
    let words: Vec<_> = words.split(' ').collect();
    run(text(&programs.join("podnet")), &words, Path::new("/"));
    debian.dpkg(&["--install", text(&package)]);
    debian.podnet("uninstall", &[]);
    let own = PLUGINS.map(|plugin| format!("{plugin}-lite"));
    assert_eq!(files(&bin), own);
    assert_eq!(debian.dpkg(&["--verify", "cni-lite"]), "");
    // With nothing else on the list there is none.
    let list = bin.join(".cni-lite-installed");
    fs::write(&list, format!("{}  bridge-lite\n", "0".repeat(64))).unwrap();
    debian.dpkg(&["--install", text(&package)]);
    assert!(!list.exists());
    // One that cannot be read keeps no package.
    fs::write(&list, b"\xff").unwrap();
    debian.dpkg(&["--remove", "cni-lite"]);
    assert_eq!(files(&bin), [".cni-lite-installed"]);
}

#[test]
fn a_name_that_was_given_back_is_not_taken_again() {
    let dist = Dist::of_scripts();
    let (Some(debian), Some(first)) = (Debian::new(), dist.package()) else {
        return;
    };
    debian.dpkg(&["--install", text(&first)]);
    let bin = debian.path("opt/cni/bin");
    debian.podnet("install", &["--standard-names", "--from", text(&bin)]);
    fs::write(bin.join("bridge"), "a person's").unwrap();
    fs::remove_file(bin.join("portmap")).unwrap();
    let newer = Dist::of_newer_scripts();
    debian.dpkg(&["--install", text(&newer.package().unwrap())]);
    assert_eq!(debian.read("bridge"), b"a person's");
    assert!(!bin.join("portmap").exists());
    assert!(debian.read("loopback") == debian.read("loopback-lite"));
    debian.dpkg(&["--remove", "cni-lite"]);
    assert_eq!(debian.files(), ["opt/cni/bin/bridge"]);
}

/// It was there before a tarball's were, and these before the package's.
#[test]
fn what_stood_in_the_package_s_place_comes_back() {
    let dist = Dist::of_scripts();
    let newer = Dist::of_newer_scripts();
    let (Some(package), Some(newer)) = (dist.package(), newer.package()) else {
        return;
    };
    let programs = dist.folder.join("programs");
    for is_uninstalled in [false, true] {
        let Some(debian) = Debian::new() else {
            return;
        };
        let bin = debian.path("opt/cni/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("bridge-lite"), "another's").unwrap();
        symlink("elsewhere", bin.join("portmap-lite")).unwrap();
        let (from, to) = (text(&programs), text(&bin));
        let words = format!("install --standard-names --from {from} --bin-dir {to}");
        let words: Vec<_> = words.split(' ').collect();
        run(text(&programs.join("podnet")), &words, Path::new("/"));
        debian.dpkg(&["--install", text(&package)]);
        debian.dpkg(&["--install", text(&newer)]);
        if is_uninstalled {
            debian.podnet("uninstall", &[]);
        }
        assert!(bin.join("bridge-lite.bak").exists());
        assert_eq!(debian.dpkg(&["--verify", "cni-lite"]), "");
        let said = debian.dpkg(&["--remove", "cni-lite"]);
        let back = format!("brought back another's {}/bridge-lite", bin.display());
        assert!(said.contains(&back), "{said}");
        let left = ["opt/cni/bin/bridge-lite", "opt/cni/bin/portmap-lite"];
        assert_eq!(debian.files(), left);
        assert_eq!(debian.read("bridge-lite"), b"another's");
        let link = fs::read_link(bin.join("portmap-lite")).unwrap();
        assert_eq!(link, Path::new("elsewhere"));
    }
}

#[test]
fn a_list_that_nobody_ends_keeps_no_package() {
    let dist = Dist::of_scripts();
    let (Some(debian), Some(package)) = (Debian::new(), dist.package()) else {
        return;
    };
    let bin = debian.path("opt/cni/bin");
    fs::create_dir_all(&bin).unwrap();
    let list = bin.join(".cni-lite-installed");
    run("mkfifo", &[text(&list)], Path::new("/"));
    debian.dpkg(&["--install", text(&package)]);
    debian.dpkg(&["--remove", "cni-lite"]);
    assert_eq!(files(&bin), [".cni-lite-installed"]);
}
