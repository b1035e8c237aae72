use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use net::{Error, Netlink, Netns, netns};

use crate::namespaces;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("net-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_path_that_is_no_network_namespace_is_told_apart() {
    let folder = Folder::new("paths");
    let path = |name: &str| folder.0.join(name);
    std::fs::write(path("file"), "").expect("file");
    symlink(path("nowhere"), path("dangling")).expect("link");
    symlink(path("loop"), path("loop")).expect("link");
    let _socket = UnixListener::bind(path("socket")).expect("socket");
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");

    let long = "x".repeat(300);
    for missing in ["nowhere", "dangling", "file/below", "nul\0", &long] {
        let error = Netns::open(&path(missing)).expect_err(missing);
        assert!(
            matches!(error, Error::NetnsMissing(_)),
            "{missing}: {error:?}"
        );
    }
    assert!(matches!(
        Netns::open(Path::new("")),
        Err(Error::NetnsMissing(_))
    ));
    for other in ["file", "loop", "socket", "fifo", "."] {
        let error = Netns::open(&path(other)).expect_err(other);
        assert!(matches!(error, Error::NotANetns(_)), "{other}: {error:?}");
    }
    for other in [
        "/proc/self/ns/mnt",
        "/proc/self/ns/pid",
        "/dev/null",
        "/proc/self/status",
    ] {
        let error = Netns::open(Path::new(other)).expect_err(other);
        assert!(matches!(error, Error::NotANetns(_)), "{other}: {error:?}");
    }
    Netns::open(Path::new("/proc/self/ns/net")).expect("a network namespace");
}

#[test]
fn the_same_namespace_is_known_by_either_path() {
    let own = Netns::current().expect("own");
    assert!(
        own.same_as(&Netns::open(Path::new("/proc/self/ns/net")).expect("own"))
            .expect("compare")
    );
    let Some((node, pod)) = namespaces() else {
        return;
    };
    assert!(!node.same_as(&pod).expect("compare"));
    assert!(!node.same_as(&own).expect("compare"));
    assert!(
        node.same_as(&node.try_clone().expect("clone"))
            .expect("compare")
    );
}

#[test]
fn entering_comes_back_also_from_a_panic() {
    let Some((node, _)) = namespaces() else {
        return;
    };
    let own = Netns::current().expect("own");
    let inside = node
        .enter(|| Netns::current().expect("current"))
        .expect("enter");
    assert!(inside.same_as(&node).expect("compare"));
    let panicked = catch_unwind(AssertUnwindSafe(|| node.enter(|| panic!("inside"))));
    assert!(panicked.is_err());
    assert!(
        Netns::current()
            .expect("current")
            .same_as(&own)
            .expect("compare")
    );
}

#[test]
fn a_socket_stays_where_it_was_opened() {
    let Some((node, pod)) = namespaces() else {
        return;
    };
    let netlink = Netlink::in_netns(&node).expect("socket");
    netlink.create_ifb("here", None, 0, 1500).expect("ifb");
    let found = pod
        .enter(|| netlink.link("here").expect("get"))
        .expect("enter");
    assert!(found.is_some());
    let inside = node
        .enter(Netlink::current)
        .expect("enter")
        .expect("socket");
    assert!(inside.link("here").expect("get").is_some());
}

#[test]
fn a_named_namespace_lasts_until_it_is_removed() {
    let Some((other, _)) = namespaces() else {
        return;
    };
    let folder = Folder::new("named");
    let path = folder.0.join("below").join("node");
    let made = match netns::create(&path) {
        Ok(made) => made,
        Err(error) => return lab::skip(&format!("cannot bind a namespace: {error}")),
    };
    let opened = Netns::open(&path).expect("open");
    assert!(opened.same_as(&made).expect("compare") && !opened.same_as(&other).expect("compare"));
    netns::create(&path).expect_err("taken");
    Netns::open(&path).expect("still there");
    netns::remove(&path).expect("remove");
    assert!(matches!(Netns::open(&path), Err(Error::NetnsMissing(_))));
    netns::remove(&path).expect("remove again");
}

#[test]
fn a_namespace_in_run_netns_is_in_a_shared_mount() {
    // In a mount namespace of the thread's own, so that the machine's mounts stay as they are.
    let inside = || {
        use nix::mount::{MsFlags, mount};
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
        mount(
            Some("tmpfs"),
            "/run",
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )
    };
    let test = move || {
        if let Err(error) = inside() {
            return lab::skip(&format!("cannot have own mounts: {error}"));
        }
        let paths = ["/run/netns/one", "/run/netns/two"].map(Path::new);
        for path in paths {
            netns::create(path).expect("create");
            Netns::open(path).expect("open");
        }
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").expect("mounts");
        // The one of this tmpfs: the machine may have another below it.
        let folders = mounts
            .lines()
            .filter(|line| line.contains(" /netns /run/netns "));
        let folders: Vec<&str> = folders.collect();
        assert!(
            matches!(folders[..], [folder] if folder.contains(" shared:")),
            "{folders:?}"
        );
        for path in paths {
            netns::remove(path).expect("remove");
        }
    };
    std::thread::spawn(test).join().expect("thread");
}
