use std::fs;
use std::path::Path;

use super::*;

fn open(path: &Path) -> OwnedFd {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY;
    nix::fcntl::open(path, flags, Mode::empty()).unwrap()
}

fn ips(text: &str) -> Vec<IpAddr> {
    text.split_whitespace()
        .map(|ip| ip.parse().unwrap())
        .collect()
}

fn entries(all: &[(&str, &str)]) -> Entries {
    let entries = all.iter();
    entries
        .map(|(name, text)| ((*name).to_owned(), ips(text)))
        .collect()
}

fn said(index: &Index) -> Entries {
    let names = index.names().unwrap().into_iter();
    let names = names.map(|name| name.into_string().unwrap());
    names
        .map(|name| (name.clone(), index.find(&name).unwrap()))
        .collect()
}

#[test]
fn it_says_what_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let first = entries(&[
        ("a:eth0", "10.1.0.2 fd00::2"),
        ("b", "10.1.0.3"),
        ("c:eth0", "10.1.0.4"),
    ]);
    let index = Index::make(&store, first.clone()).unwrap();
    assert_eq!(said(&index), first);
    assert!(index.find("a").unwrap().is_empty());
    index.put("a:eth0", &ips("10.1.0.9")).unwrap();
    index.remove("b").unwrap();
    index.remove("b").unwrap();
    assert_eq!(
        said(&index),
        entries(&[("a:eth0", "10.1.0.9"), ("c:eth0", "10.1.0.4")])
    );
    // Made again, it has what is new, has lost what is not so, and is what it was else.
    fs::write(folder.path().join(NAME).join("d:eth0"), "").unwrap();
    let second = entries(&[
        ("a:eth0", "10.1.0.2"),
        ("c:eth0", "10.1.0.4"),
        ("e:eth0", "10.1.0.5"),
    ]);
    assert_eq!(said(&Index::make(&store, second.clone()).unwrap()), second);
    Index::discard(&store).unwrap();
    Index::discard(&store).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_are_of_what_a_request_can_ask_for() {
    let of = |container_id, ifname| {
        name(Owner {
            container_id,
            ifname,
        })
    };
    assert_eq!(of("a", Some("eth0")).as_deref(), Some("a:eth0"));
    assert_eq!(of("a", None).as_deref(), Some("a"));
    assert_eq!(of("a", Some("../b")), None);
    let (fits, too_long) = ("a".repeat(250), "a".repeat(251));
    assert!(of(&fits, Some("eth0")).is_some_and(|name| name.len() == LONGEST_NAME));
    assert_eq!(of(&too_long, Some("eth0")), None);
}

#[test]
fn it_counts_until_the_store_changes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let counts = || Index::open(&store).is_some();
    assert!(!counts());
    // What a kill leaves between making and sealing, at one instant.
    let index = Index::make(&store, Entries::new()).unwrap();
    assert!(!counts());
    let changes: [&dyn Fn(&Path); 6] = [
        &|path| fs::write(path.join("10.1.0.2"), "a\r\neth0").unwrap(),
        &|path| fs::rename(path.join("10.1.0.2"), path.join("10.1.0.3")).unwrap(),
        &|path| fs::remove_file(path.join("10.1.0.3")).unwrap(),
        &|path| fs::write(path.join(NAME).join("a"), "").unwrap(),
        &|path| fs::remove_file(path.join(NAME).join("a")).unwrap(),
        // By hand, and into the past.
        &|path| {
            let past = std::time::SystemTime::now() - Duration::from_secs(3600);
            fs::File::open(path).unwrap().set_modified(past).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        index.seal(&store).unwrap();
        assert!(counts(), "{number}");
        fs::read_dir(folder.path()).unwrap().count();
        assert!(counts(), "{number}");
        change(folder.path());
        assert!(!counts(), "{number}");
    }
}

#[test]
fn a_folder_that_is_none_is_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for make in [
        |path: &Path| fs::write(path, "").unwrap(),
        |path: &Path| std::os::unix::fs::symlink(".", path).unwrap(),
    ] {
        let path = folder.path().join(NAME);
        make(&path);
        assert!(Index::open(&store).is_none());
        assert!(Index::make(&store, Entries::new()).is_err());
        assert!(Index::discard(&store).is_err());
        fs::remove_file(&path).unwrap();
    }
}
