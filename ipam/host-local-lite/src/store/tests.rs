use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use fs2::FileExt as _;

use super::files::{file_mode, write_named};
use super::*;

const SHORT: Duration = Duration::from_millis(20);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn attachment(container_id: &str, ifname: &str) -> Attachment {
    Attachment::new("net", container_id, ifname)
}

/// A store in a folder of the test's own.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("a/net")).unwrap();
    (folder, store)
}

fn reserve(store: &Store, attachment: &Attachment, ips: &[&str]) -> Result<(), Error> {
    let ips: Vec<IpAddr> = ips.iter().map(|text| ip(text)).collect();
    let mut locked = store.lock(SHORT)?.unwrap();
    locked.reserve_all(attachment, &Held::default(), &ips)
}

fn names(store: &Store) -> Vec<String> {
    let entries = fs::read_dir(&store.path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn read(store: &Store, name: &str) -> Vec<u8> {
    fs::read(store.path.join(name)).unwrap()
}

fn write(store: &Store, name: &str, content: &[u8]) {
    fs::write(store.path.join(name), content).unwrap();
}

#[test]
fn files_are_the_reference_plugins_byte_for_byte() {
    let (_folder, store) = store();
    reserve(
        &store,
        &attachment("abc", "eth0"),
        &["10.1.0.2", "2001:DB8:0:0::5"],
    )
    .unwrap();
    assert_eq!(
        names(&store),
        [
            "10.1.0.2",
            "2001:db8::5",
            "last_reserved_ip.0",
            "last_reserved_ip.1",
            "lock"
        ]
    );
    assert_eq!(read(&store, "10.1.0.2"), b"abc\r\neth0");
    assert_eq!(read(&store, "2001:db8::5"), b"abc\r\neth0");
    assert_eq!(read(&store, "last_reserved_ip.0"), b"10.1.0.2");
    assert_eq!(read(&store, "last_reserved_ip.1"), b"2001:db8::5");
    assert_eq!(read(&store, "lock"), b"");
    for (name, mode) in [
        ("10.1.0.2", 0o600),
        ("last_reserved_ip.0", 0o600),
        ("lock", 0o750),
    ] {
        let found = fs::metadata(store.path.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
}

#[test]
fn a_shorter_cursor_replaces_a_longer_one() {
    let (_folder, store) = store();
    reserve(&store, &attachment("a", "eth0"), &["10.100.100.200"]).unwrap();
    reserve(&store, &attachment("b", "eth0"), &["10.1.0.2"]).unwrap();
    assert_eq!(read(&store, "last_reserved_ip.0"), b"10.1.0.2");
    assert_eq!(
        store.lock(SHORT).unwrap().unwrap().last(0),
        Some(ip("10.1.0.2"))
    );
}

#[test]
fn a_cursor_that_is_no_address_is_none() {
    let (_folder, store) = store();
    let locked = store.lock(SHORT).unwrap().unwrap();
    for content in [&b""[..], b"\0\0\0\0", b"10.1.0", b"\xff\xff"] {
        write(&store, "last_reserved_ip.0", content);
        assert_eq!(locked.last(0), None);
    }
    write(&store, "last_reserved_ip.0", b" 10.1.0.9\n");
    assert_eq!(locked.last(0), Some(ip("10.1.0.9")));
    assert_eq!(locked.last(1), None);
}

#[test]
fn reservations_are_seen_by_an_attachment() {
    let (_folder, store) = store();
    write(&store, "10.1.0.2", b"abc\r\neth0");
    write(&store, "10.1.0.3", b"abc\r\neth1");
    write(&store, "10.1.0.4", b"abc\n");
    write(&store, "10.1.0.5", b"other");
    write(&store, "fd00::5", b"abc\r\neth0");
    write(&store, "notes.txt", b"abc\r\neth0");
    let seen = store.reservations(&attachment("abc", "eth0")).unwrap();
    assert_eq!(seen.taken.len(), 5);
    let mut held: Vec<IpAddr> = seen.held.ips().collect();
    held.sort();
    assert_eq!(held, [ip("10.1.0.2"), ip("10.1.0.4"), ip("fd00::5")]);
    let mut released: Vec<IpAddr> = seen.held.to_release().iter().map(|one| one.ip).collect();
    released.sort();
    assert_eq!(released, [ip("10.1.0.2"), ip("fd00::5")]);
    let oldest = store.reservations(&attachment("other", "eth0")).unwrap();
    assert_eq!(oldest.held.to_release().len(), 1);
    assert!(store.holds(&attachment("abc", "eth0"), ip("10.1.0.4")));
    assert!(!store.holds(&attachment("abc", "eth0"), ip("10.1.0.3")));
    assert!(!store.holds(&attachment("abc", "eth0"), ip("10.1.0.99")));
}

#[test]
fn garbage_is_what_no_valid_attachment_holds() {
    let (_folder, store) = store();
    let valid = [attachment("abc", "eth0"), attachment("legacy", "net1")].into();
    for (name, content) in [
        ("10.1.0.2", &b"abc\r\neth0"[..]),
        ("10.1.0.3", b"abc\r\neth1"),
        ("10.1.0.4", b"abcd\r\neth0"),
        ("10.1.0.5", b"legacy\n"),
        ("10.1.0.6", b"legac"),
        ("10.1.0.7", b""),
        ("10.1.0.8", b"by hand, for the printer"),
        ("fd00::5", b"ab\r\neth0"),
        ("notes.txt", b"gone\r\neth0"),
        ("last_reserved_ip.0", b"10.1.0.8"),
    ] {
        write(&store, name, content);
    }
    write(&store, "10.1.0.9", &[b'a'; LONGEST]);
    fs::create_dir(store.path.join("10.1.0.10")).unwrap();
    std::os::unix::fs::symlink("10.1.0.4", store.path.join("10.1.0.11")).unwrap();
    nix::unistd::mkfifo(&store.path.join("10.1.0.12"), file_mode()).unwrap();
    let (mut garbage, errors) = store.garbage("net", &valid).unwrap();
    garbage.sort_by_key(|one| one.ip);
    let ips: Vec<String> = garbage.iter().map(|one| one.ip.to_string()).collect();
    let expected = ["10.1.0.3", "10.1.0.4", "10.1.0.6", "10.1.0.7", "fd00::5"];
    assert_eq!(ips, expected);
    assert_eq!(errors, []);
    let (all, _) = store.garbage("net", &BTreeSet::new()).unwrap();
    assert_eq!(all.len(), 7);
}

#[test]
fn files_are_counted_by_their_names() {
    let (_folder, store) = store();
    write(&store, "10.1.0.2", b"abc\r\neth0");
    write(&store, "fd00::5", b"");
    write(&store, "notes.txt", b"");
    assert_eq!(
        store.names().unwrap(),
        [ip("10.1.0.2"), ip("fd00::5")].into()
    );
    assert!(!store.is_free(ip("10.1.0.2")));
    assert!(store.is_free(ip("fd00::5")) && store.is_free(ip("10.1.0.3")));
}

#[test]
fn whether_files_can_be_written_is_asked_without_a_trace() {
    let (folder, store) = store();
    let before = names(&store);
    check_writable(&store.path).unwrap();
    assert_eq!(names(&store), before);
    check_writable(&folder.path().join("not/there/yet")).unwrap();
    assert!(!folder.path().join("not").exists());
    fs::write(folder.path().join("file"), b"").unwrap();
    let error = check_writable(&folder.path().join("file/net")).unwrap_err();
    assert!(error.msg.ends_with("file: not a directory"), "{error}");
}

#[test]
fn what_a_power_loss_leaves_blocks_no_address() {
    let (_folder, store) = store();
    write(&store, "10.1.0.2", b"");
    write(&store, "10.1.0.3", &[0; 4096]);
    let abc = attachment("abc", "eth0");
    assert!(store.reservations(&abc).unwrap().taken.is_empty());
    reserve(&store, &abc, &["10.1.0.2", "10.1.0.3"]).unwrap();
    assert_eq!(read(&store, "10.1.0.2"), b"abc\r\neth0");
    assert_eq!(read(&store, "10.1.0.3"), b"abc\r\neth0");
}

#[test]
fn junk_is_left_alone_and_its_names_are_not_given() {
    let (_folder, store) = store();
    fs::create_dir(store.path.join("10.1.0.2")).unwrap();
    fs::create_dir(store.path.join("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", store.path.join("10.1.0.3")).unwrap();
    write(&store, "binary", b"\xff\0\xfe");
    write(&store, "10.1.0.4", "other ".repeat(100_000).as_bytes());
    let abc = attachment("abc", "eth0");
    let seen = store.reservations(&abc).unwrap();
    assert!(seen.taken.contains(&ip("10.1.0.2")) && seen.taken.contains(&ip("10.1.0.3")));
    assert!(seen.held.to_release().is_empty());
    assert!(reserve(&store, &abc, &["10.1.0.2"]).is_err());
}

#[test]
fn a_pipe_in_the_folder_does_not_hang_us() {
    let (_folder, store) = store();
    nix::unistd::mkfifo(&store.path.join("10.1.0.2"), file_mode()).unwrap();
    let seen = store.reservations(&attachment("abc", "eth0")).unwrap();
    assert!(seen.held.to_release().is_empty());
}

/// What they lead to is neither read nor written nor waited for, and the error names them.
#[test]
fn links_and_pipes_planted_in_the_folder_are_not_followed() {
    let abc = attachment("abc", "eth0");
    for name in ["lock", "last_reserved_ip.0", "10.1.0.2", ".by-attachment"] {
        for target in ["victim", "not-there"] {
            let (folder, store) = store();
            let at = |name: &str| folder.path().join(name);
            fs::write(at("victim"), "precious").unwrap();
            std::os::unix::fs::symlink(at(target), store.path.join(name)).unwrap();
            let added = reserve(&store, &abc, &["10.1.0.2"]);
            if name == ".by-attachment" {
                added.unwrap();
            } else {
                let error = added.unwrap_err();
                assert_eq!(error.code, code::IO_FAILURE);
                assert!(error.msg.contains(&format!("/net/{name}: ")), "{error}");
            }
            assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
            assert!(!at("not-there").exists(), "{name}");
            assert!(store.path.join(name).is_symlink(), "{name}");
        }
        let (_folder, store) = store();
        nix::unistd::mkfifo(&store.path.join(name), file_mode()).unwrap();
        let added = reserve(&store, &abc, &["10.1.0.2"]);
        // An address that a pipe is named by is nobody's.
        let harmless = name != "last_reserved_ip.0";
        assert_eq!(added.is_ok(), harmless, "{name}: {added:?}");
    }
}

#[test]
fn all_or_nothing() {
    let (_folder, store) = store();
    reserve(&store, &attachment("old", "eth0"), &["10.1.0.9"]).unwrap();
    write(&store, "fd00::2", b"other\r\neth0");
    let before = names(&store);
    let abc = attachment("abc", "eth0");
    let error = reserve(&store, &abc, &["10.1.0.2", "fd00::2"]).unwrap_err();
    assert!(error.msg.ends_with("fd00::2: file exists"), "{error}");
    assert_eq!(names(&store), before);
    // A cursor that cannot be written: the other cursor goes back, too.
    fs::create_dir(store.path.join("last_reserved_ip.1")).unwrap();
    let before = names(&store);
    let error = reserve(&store, &abc, &["10.1.0.2", "fd00::3"]).unwrap_err();
    assert_eq!(error.code, code::IO_FAILURE);
    assert_eq!(names(&store), before);
    assert_eq!(read(&store, "last_reserved_ip.0"), b"10.1.0.9");
}

#[test]
fn files_without_unnamed_files_are_the_same() {
    let (_folder, store) = store();
    write_named(&store.folder, "10.1.0.2", b"abc\r\neth0").unwrap();
    assert_eq!(read(&store, "10.1.0.2"), b"abc\r\neth0");
    let mode = fs::metadata(store.path.join("10.1.0.2")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = write_named(&store.folder, "10.1.0.2", b"x").unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(read(&store, "10.1.0.2"), b"abc\r\neth0");
}

#[test]
fn release_removes_once_and_again() {
    let (_folder, store) = store();
    let abc = attachment("abc", "eth0");
    reserve(&store, &abc, &["10.1.0.2"]).unwrap();
    let locked = store.lock(SHORT).unwrap().unwrap();
    let seen = store.reservations(&abc).unwrap();
    locked.release(&seen.held.to_release()[0]).unwrap();
    locked.release(&seen.held.to_release()[0]).unwrap();
    assert_eq!(names(&store), ["last_reserved_ip.0", "lock"]);
}

#[test]
fn a_lock_held_by_another_is_waited_for_until_the_deadline() {
    let (_folder, store) = store();
    let other = File::create(store.path.join("lock")).unwrap();
    other.lock_exclusive().unwrap();
    let error = store.lock(SHORT).unwrap_err();
    assert_eq!(error.code, code::TRY_AGAIN_LATER);
    assert!(
        error.msg.contains("/net/lock is held by another process"),
        "{error}"
    );
    drop(other);
    assert!(store.lock(SHORT).unwrap().is_some());
}

#[test]
fn a_lock_file_that_was_deleted_locks_nothing() {
    let (_folder, store) = store();
    let first = store.lock(SHORT).unwrap().unwrap();
    fs::remove_file(store.path.join("lock")).unwrap();
    // The file has a new inode; the old lock is worth nothing to whoever comes now.
    let second = store.lock(SHORT).unwrap().unwrap();
    drop(first);
    assert_eq!(store.lock(SHORT).unwrap_err().code, code::TRY_AGAIN_LATER);
    drop(second);
}

#[test]
fn a_deleted_folder_is_no_error() {
    let (folder, store) = store();
    fs::remove_dir_all(folder.path().join("a")).unwrap();
    assert!(store.lock(SHORT).unwrap().is_none());
    assert!(
        store
            .reservations(&attachment("abc", "eth0"))
            .unwrap()
            .taken
            .is_empty()
    );
}

#[test]
fn folders_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    for path in ["net", "a/b/net", "file", "file/net"] {
        assert!(
            Store::open(&folder.path().join(path)).unwrap().is_none(),
            "{path}"
        );
    }
    let error = Store::create(&folder.path().join("file/net")).unwrap_err();
    assert_eq!(error.code, code::IO_FAILURE);
    assert!(error.msg.ends_with("file/net: not a directory"), "{error}");
}
