//! What is put into folders, is exchanged, kept, brought back and taken away.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use install::{Content, Done, Error, Item, Put, Removed, Undone, hand_over, put, remove};
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

/// The list of what is ours.
const LIST: &str = ".cni-lite-installed";

/// Of installations at the same moment.
const ROUNDS: usize = 300;

/// A folder with the two that files are put into.
struct Node(TempDir);

impl Node {
    fn new() -> Node {
        Node(tempfile::tempdir().unwrap())
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("opt/bin")
    }

    fn conf(&self) -> PathBuf {
        self.0.path().join("etc/conf")
    }

    /// A file of another in the folder of programs.
    fn another(&self, name: &str, text: &str) {
        fs::create_dir_all(self.bin()).unwrap();
        fs::write(self.bin().join(name), text).unwrap();
    }

    /// Items for the folder of programs, by name and text.
    fn items(&self, all: &[(&str, &str)]) -> Vec<Item> {
        let item = |(name, text): &(&str, &str)| Item {
            folder: self.bin(),
            name: (*name).to_owned(),
            content: Content::Bytes((*text).into()),
            mode: 0o755,
            yields: false,
        };
        all.iter().map(item).collect()
    }

    fn put(&self, all: &[(&str, &str)]) -> install::Result<Vec<Put>> {
        put(&self.items(all))
    }

    /// What became of each, in order.
    fn done(&self, all: &[(&str, &str)]) -> Vec<Done> {
        let put = self.put(all).unwrap();
        put.into_iter().map(|put| put.done).collect()
    }

    fn remove(&self) -> Vec<Removed> {
        let removed = remove(&self.bin()).unwrap();
        removed.into_iter().map(Result::unwrap).collect()
    }

    /// All there is but the list, by the path: a file's text, a link's target, a folder's slash.
    fn all(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        walk(self.0.path(), &mut |path| {
            let name = path.strip_prefix(self.0.path()).unwrap();
            let what = if path.is_symlink() {
                format!("-> {}", fs::read_link(path).unwrap().display())
            } else if path.is_dir() {
                "/".to_owned()
            } else {
                fs::read_to_string(path).unwrap()
            };
            all.insert(name.display().to_string(), what);
        });
        all
    }

    /// The texts in the folder of programs, the list excepted.
    fn programs(&self) -> Vec<(String, String)> {
        let all = self.all().into_iter();
        let inside = all.filter_map(|(path, text)| {
            let name = path.strip_prefix("opt/bin/")?;
            (name != LIST).then(|| (name.to_owned(), text))
        });
        inside.collect()
    }

    #[track_caller]
    fn expect(&self, expected: &[(&str, &str)]) {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let expected: Vec<_> = expected.iter().map(own).collect();
        assert_eq!(self.programs(), expected);
    }
}

fn walk(folder: &Path, look: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        look(&path);
        if path.is_dir() && !path.is_symlink() {
            walk(&path, look);
        }
    }
}

#[test]
fn files_come_are_exchanged_and_go() {
    let node = Node::new();
    let old = [("a", "1"), ("b", "2")];
    assert_eq!(node.done(&old), [Done::Created; 2]);
    node.expect(&old);
    let mode = |name: &str| {
        fs::metadata(node.bin().join(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!((mode("a") & 0o7777, mode(LIST) & 0o7777), (0o755, 0o644));
    let before = node.all();
    assert_eq!(node.done(&old), [Done::Unchanged; 2]);
    assert_eq!(node.all(), before);
    // Fewer names: what is not among them is still ours.
    assert_eq!(node.done(&[("a", "3")]), [Done::Updated]);
    node.expect(&[("a", "3"), ("b", "2")]);
    let removed = node.remove();
    assert!(removed.iter().all(|it| it.undone == Undone::Removed));
    assert_eq!(removed.len(), 2);
    node.expect(&[]);
    assert!(!node.bin().join(LIST).exists());
    assert_eq!(node.remove(), []);
    assert!(remove(Path::new("/of/nobody")).unwrap().is_empty());
}

#[test]
fn what_another_has_put_there_is_kept_and_comes_back() {
    let node = Node::new();
    node.another("a", "another's");
    fs::set_permissions(node.bin().join("a"), Permissions::from_mode(0o700)).unwrap();
    symlink("elsewhere", node.bin().join("l")).unwrap();
    let before = node.all();
    let put = node.put(&[("a", "1"), ("b", "2"), ("l", "3")]).unwrap();
    let kept = |name: &str| Some(node.bin().join(name));
    let backups: Vec<_> = put.iter().map(|put| put.backup.clone()).collect();
    assert_eq!(backups, [kept("a.bak"), None, kept("l.bak")]);
    assert_eq!(put[0].done, Done::Replaced);
    node.expect(&[
        ("a", "1"),
        ("a.bak", "another's"),
        ("b", "2"),
        ("l", "3"),
        ("l.bak", "-> elsewhere"),
    ]);
    // A newer version, twice, leaves alone what is kept.
    for done in [Done::Updated, Done::Unchanged] {
        assert_eq!(node.done(&[("a", "4")]), [done]);
        assert_eq!(node.programs()[1].1, "another's");
    }
    let undone = node.remove().into_iter().map(|it| it.undone);
    let restored = undone.filter(|it| *it == Undone::Restored);
    assert_eq!(restored.count(), 2);
    assert_eq!(node.all(), before);
    let mode = fs::metadata(node.bin().join("a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn nothing_is_kept_over_something_else() {
    let node = Node::new();
    node.another("b", "another's");
    node.another("b.bak", "an older one's");
    let before = node.all();
    let error = node.put(&[("a", "1"), ("b", "2")]).unwrap_err();
    assert!(matches!(error, Error::BackupTaken { .. }), "{error}");
    assert!(!error.is_usage());
    for name in ["/opt/bin/b is another's", "/opt/bin/b.bak: that is there"] {
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(node.all(), before);
    // Nor over the same once more, which whoever has put it there would miss after the removal.
    node.another("b.bak", "another's");
    let before = node.all();
    let error = node.put(&[("b", "2")]).unwrap_err();
    assert!(matches!(error, Error::BackupTaken { .. }), "{error}");
    assert_eq!(node.all(), before);
    // What we have kept is good for a second time.
    fs::remove_file(node.bin().join("b.bak")).unwrap();
    for _ in 0..2 {
        assert_eq!(node.done(&[("b", "2")]), [Done::Replaced]);
        node.expect(&[("b", "2"), ("b.bak", "another's")]);
        node.another("b", "another's");
    }
    node.put(&[("b", "2")]).unwrap();
    node.remove();
    node.expect(&[("b", "another's")]);
}

/// As one leaves it that was killed before the exchange: what was kept is the same file still.
#[test]
fn what_is_there_again_needs_no_backup() {
    let node = Node::new();
    let (b, backup) = (node.bin().join("b"), node.bin().join("b.bak"));
    node.another("b", "another's");
    node.put(&[("b", "2")]).unwrap();
    fs::remove_file(&b).unwrap();
    fs::hard_link(&backup, &b).unwrap();
    assert_eq!(node.remove()[0].undone, Undone::Restored);
    node.expect(&[("b", "another's")]);
}

#[test]
fn what_yields_is_put_where_nobody_else_has_a_file() {
    let node = Node::new();
    let yielding = |text| {
        let mut items = node.items(&[("a", text)]);
        items[0].yields = true;
        put(&items).unwrap()[0].done
    };
    assert_eq!(yielding("1"), Done::Created);
    assert_eq!(yielding("2"), Done::Updated);
    node.another("a", "another's");
    assert_eq!(yielding("3"), Done::Unchanged);
    node.expect(&[("a", "another's")]);
    std::os::unix::fs::symlink("nowhere", node.bin().join("b")).unwrap();
    let mut items = node.items(&[("b", "1")]);
    items[0].yields = true;
    assert_eq!(put(&items).unwrap()[0].done, Done::Unchanged);
}

#[test]
fn what_is_no_file_is_refused() {
    let node = Node::new();
    fs::create_dir_all(node.bin().join("b")).unwrap();
    let before = node.all();
    let error = node.put(&[("a", "1"), ("b", "2")]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("/opt/bin/b is there, and no file")
    );
    assert_eq!(node.all(), before);
}

#[test]
fn a_failure_in_the_middle_leaves_nothing() {
    let node = Node::new();
    node.another("a", "another's");
    node.put(&[("d", "old"), ("e", "old")]).unwrap();
    // Where `e` should be until all is done.
    fs::create_dir_all(node.bin().join(".e.old/x")).unwrap();
    let before = node.all();
    let all = [("a", "1"), ("b", "2"), ("d", "4"), ("e", "5")];
    let error = node.put(&all).unwrap_err();
    assert!(error.to_string().contains(".e.old"), "{error}");
    assert_eq!(node.all(), before);
    fs::remove_dir_all(node.bin().join(".e.old")).unwrap();
    assert_eq!(node.put(&all).unwrap().len(), 4);
}

#[test]
fn a_failure_leaves_no_folder_and_nothing_elsewhere() {
    let node = Node::new();
    let mut items = node.items(&[("a", "1")]);
    items.push(Item {
        folder: node.conf(),
        content: Content::File("/of/nobody".into()),
        ..items[0].clone()
    });
    let error = put(&items).unwrap_err();
    assert!(error.to_string().contains("read /of/nobody"), "{error}");
    assert_eq!(node.all(), BTreeMap::new());
    // Both at once, each with its list.
    items[1].content = Content::Bytes(b"2".to_vec());
    assert_eq!(put(&items).unwrap().len(), 2);
    assert!(node.conf().join(LIST).exists());
    node.remove();
    assert_eq!(fs::read_dir(node.conf()).unwrap().count(), 2);
}

#[test]
fn a_folder_that_cannot_be_made_leaves_none_of_those_above_it() {
    let node = Node::new();
    let mut items = node.items(&[("a", "1")]);
    items[0].folder = node.0.path().join("opt/new").join("x".repeat(300));
    assert!(put(&items).is_err());
    assert_eq!(node.all(), BTreeMap::new());
}

#[test]
fn what_was_changed_since_stays() {
    let node = Node::new();
    node.another("a", "another's");
    node.put(&[("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    node.another("a", "changed");
    node.another("b", "changed");
    fs::remove_file(node.bin().join("c")).unwrap();
    let removed = node.remove();
    let kept = Some(node.bin().join("a.bak"));
    let told: Vec<_> = removed.iter().map(|it| (it.undone, &it.backup)).collect();
    assert_eq!(told, [(Undone::Left, &kept), (Undone::Left, &None)]);
    node.expect(&[("a", "changed"), ("a.bak", "another's"), ("b", "changed")]);
    assert_eq!(node.remove(), []);
}

#[test]
fn what_somebody_removed_comes_back_all_the_same() {
    let node = Node::new();
    node.another("a", "another's");
    node.put(&[("a", "1")]).unwrap();
    fs::remove_file(node.bin().join("a")).unwrap();
    assert_eq!(node.done(&[("a", "2")]), [Done::Created]);
    fs::remove_file(node.bin().join("a")).unwrap();
    assert_eq!(node.remove()[0].undone, Undone::Restored);
    node.expect(&[("a", "another's")]);
}

/// The same content by another way, as a package's, is not ours to remove.
#[test]
fn what_was_there_already_is_not_ours() {
    let node = Node::new();
    node.another("a", "1");
    fs::set_permissions(node.bin().join("a"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(node.done(&[("a", "1"), ("b", "2")])[0], Done::Unchanged);
    node.remove();
    node.expect(&[("a", "1")]);
}

#[test]
fn what_a_package_has_put_there_is_its_own() {
    let node = Node::new();
    assert!(hand_over(&node.bin()).unwrap().is_empty());
    node.another("bridge-lite", "another's");
    let old = [
        ("bridge-lite", "1"),
        ("bridge", "1"),
        ("loopback-lite", "1"),
        ("loopback", "1"),
    ];
    node.put(&old).unwrap();
    node.another("portmap", "not listed");
    // The package, and a person, who takes a name back.
    for (name, text) in [
        ("bridge-lite", "2"),
        ("loopback-lite", "2"),
        ("portmap-lite", "2"),
        ("loopback", "a person's"),
    ] {
        node.another(name, text);
    }
    let bridge = Put {
        path: node.bin().join("bridge"),
        done: Done::Updated,
        backup: None,
    };
    assert_eq!(hand_over(&node.bin()).unwrap(), [bridge]);
    let own = [("bridge-lite", "2"), ("bridge-lite.bak", "another's")];
    let others = [
        ("loopback", "a person's"),
        ("loopback-lite", "2"),
        ("portmap", "not listed"),
    ];
    let portmap = [("portmap-lite", "2")];
    node.expect(&[&[("bridge", "2")], &own[..], &others, &portmap].concat());
    // What was kept is so until the package has gone.
    for _ in 0..2 {
        let removed = node.remove();
        let left = removed.iter().filter(|it| it.backup.is_some());
        assert_eq!(left.count(), 1, "{removed:?}");
        node.expect(&[&own[..], &others, &portmap].concat());
    }
    fs::remove_file(node.bin().join("bridge-lite")).unwrap();
    let removed = node.remove();
    assert_eq!((removed.len(), removed[0].undone), (1, Undone::Restored));
    node.expect(&[&[("bridge-lite", "another's")], &others[..], &portmap].concat());
    assert!(!node.bin().join(LIST).exists());
}

/// Killed between its parts: what it has put there is ours, and what it has left is swept.
#[test]
fn one_that_was_killed_is_gone_on_with() {
    let node = Node::new();
    node.put(&[("a", "1"), ("b", "1")]).unwrap();
    let former = fs::read_to_string(node.bin().join(LIST)).unwrap();
    node.put(&[("a", "2"), ("b", "2")]).unwrap();
    let newer = fs::read_to_string(node.bin().join(LIST)).unwrap();
    fs::write(node.bin().join(LIST), former + &newer).unwrap();
    node.another("b", "1");
    node.another(".b.new", "2, and half of");
    node.another(".b.old", "1");
    assert_eq!(
        node.done(&[("a", "3"), ("b", "3")]),
        [Done::Updated, Done::Updated]
    );
    node.expect(&[("a", "3"), ("b", "3")]);
    assert_eq!(node.remove().len(), 2);
    node.expect(&[]);
}

#[test]
fn one_at_a_time() {
    let node = Node::new();
    node.put(&[("a", "1")]).unwrap();
    let folder = File::open(node.bin()).unwrap();
    let held = Flock::lock(folder, FlockArg::LockExclusive).unwrap();
    for refused in [
        node.put(&[("a", "2")]).map(drop),
        remove(&node.bin()).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    }
    node.expect(&[("a", "1")]);
    drop(held);
    node.remove();
}

/// No folder is there at first, and some of them fail, and remove what they have made.
#[test]
fn first_ones_at_the_same_moment() {
    for round in 0..ROUNDS {
        let node = Node::new();
        let good = node.items(&[("a", "1"), ("b", "2")]);
        let mut bad = good.clone();
        bad[1].content = Content::File("/of/nobody".into());
        let begin = Barrier::new(6);
        let put_at_once = |items: &[Item]| {
            begin.wait();
            put(items).map(drop)
        };
        let results: Vec<_> = thread::scope(|scope| {
            let of_each = [&good, &bad, &good, &bad, &good, &good];
            let threads = of_each.map(|items| scope.spawn(|| put_at_once(items)));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        let list = fs::read_to_string(node.bin().join(LIST)).unwrap_or_default();
        let is_done = results.iter().any(Result::is_ok);
        for name in ["a", "b"] {
            let is_listed = list.contains(&format!("  {name}\n"));
            let is_there = node.bin().join(name).exists();
            assert_eq!(
                (is_listed, is_there),
                (is_done, is_done),
                "{round}: {results:?}"
            );
        }
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        for error in refused {
            let is_nobody_s = error.to_string().contains("/of/nobody");
            assert!(
                is_nobody_s || matches!(error, Error::Busy(_)),
                "{round}: {error}"
            );
        }
    }
}

/// A file that is run is not written into: who runs it goes on with it.
#[test]
fn the_former_file_lives_on_for_who_has_it_open() {
    let node = Node::new();
    node.put(&[("a", "1")]).unwrap();
    let mut open = File::open(node.bin().join("a")).unwrap();
    node.put(&[("a", "2")]).unwrap();
    assert_eq!(std::io::read_to_string(&mut open).unwrap(), "1");
}
