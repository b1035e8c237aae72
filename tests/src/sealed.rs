//! A thread that can write nowhere but where it is told.

use std::fs;
use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// File systems that are no files: they have rules of their own.
const KEPT: [&str; 6] = ["proc", "sysfs", "cgroup", "cgroup2", "devpts", "nsfs"];

/// Gives this thread, and the programs that it starts, mounts of their own: all read-only but
/// `writable`, and an empty `/var/lib`. What they make wherever a configuration points to is then
/// nobody's.
///
/// # Errors
/// The kernel's.
pub fn seal(writable: &Path) -> io::Result<()> {
    // Of this thread alone, since its working folder is its own then as well.
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(writable), writable, none, MsFlags::MS_BIND, none)?;
    for line in fs::read_to_string("/proc/thread-self/mountinfo")?.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let kind = words.iter().skip_while(|word| **word != "-").nth(1);
        let (Some(target), Some(options), Some(kind)) = (words.get(4), words.get(5), kind) else {
            continue;
        };
        if KEPT.contains(kind) || Path::new(target) == writable {
            continue;
        }
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(none, *target, none, read_only | flags(options), none)?;
    }
    mount(none, "/var/lib", Some("tmpfs"), MsFlags::empty(), none)?;
    Ok(())
}

/// The flags that a mount has: an ordinary user must not take one away (mount_namespaces(7)).
fn flags(options: &str) -> MsFlags {
    let flag = |option: &str| match option {
        "nosuid" => MsFlags::MS_NOSUID,
        "nodev" => MsFlags::MS_NODEV,
        "noexec" => MsFlags::MS_NOEXEC,
        "noatime" => MsFlags::MS_NOATIME,
        "nodiratime" => MsFlags::MS_NODIRATIME,
        "relatime" => MsFlags::MS_RELATIME,
        _ => MsFlags::empty(),
    };
    options.split(',').map(flag).collect()
}
