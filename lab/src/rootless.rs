//! Root without being root: namespaces for an ordinary user.

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::Result;
use crate::error::Doing;

/// Makes an ordinary user root of a user, mount and network namespace of this process's own, with
/// an empty `/run`. Equivalent to `unshare --user --map-root-user --mount --net` and a tmpfs on
/// `/run`. True where it was needed: for root it does nothing. It must come before any thread is
/// started.
///
/// # Errors
/// The kernel allows no user namespaces, or a thread runs already.
pub fn enter() -> Result<bool> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(false);
    }
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    unshare(flags)
        .map_err(Into::into)
        .doing("make a user namespace (run as root instead)")?;
    let write = |file: &str, text: &str| {
        fs::write(Path::new("/proc/self").join(file), text).doing(format!("write {file}"))
    };
    // Without it a group may not be mapped (user_namespaces(7)).
    write("setgroups", "deny")?;
    write("uid_map", &format!("0 {user} 1"))?;
    write("gid_map", &format!("0 {group} 1"))?;
    mount(
        Some("tmpfs"),
        "/run",
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(Into::into)
    .doing("mount a tmpfs on /run")?;
    Ok(true)
}
