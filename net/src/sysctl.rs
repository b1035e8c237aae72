//! Sysctls of the calling thread's namespace, by their slash path below /proc/sys (an interface's
//! name may contain dots).

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::{Error, Result};

/// The value, trimmed; `None` where the kernel has no such sysctl.
///
/// # Errors
/// The file system's.
pub fn read(path: &str) -> Result<Option<String>> {
    let text = std::fs::read_to_string(file(path)?);
    found(text, || format!("read sysctl {path}"))
        .map(|text| text.map(|text| text.trim().to_owned()))
}

/// Writes the value unless it is so already; returns the value that was there. A sysctl that the
/// kernel does not have is `None` and not an error.
///
/// # Errors
/// The file system's, naming the sysctl.
pub fn write(path: &str, value: &str) -> Result<Option<String>> {
    let Some(old) = read(path)? else {
        return Ok(None);
    };
    if is_same(&old, value) {
        return Ok(Some(old));
    }
    let written = std::fs::write(file(path)?, value);
    let written = found(written, || format!("set sysctl {path} to {value:?}"))?;
    Ok(written.map(|()| old))
}

/// Whether [`write()`] would do, without a change: the value is so already, or the file can be written.
///
/// # Errors
/// The file system's, naming the sysctl.
pub fn check_write(path: &str, value: &str) -> Result<()> {
    let Some(old) = read(path)?.filter(|old| !is_same(old, value)) else {
        return Ok(());
    };
    let opened = std::fs::OpenOptions::new().write(true).open(file(path)?);
    let doing = || format!("set sysctl {path} from {old:?} to {value:?}");
    found(opened, doing).map(drop)
}

/// The kernel separates several numbers by tabs, people by spaces.
fn is_same(old: &str, new: &str) -> bool {
    old.split_whitespace().eq(new.split_whitespace())
}

/// The file of a sysctl. The path must stay below /proc/sys, whatever interface name is in it.
fn file(path: &str) -> Result<PathBuf> {
    let plain = |component| matches!(component, Component::Normal(_));
    if path.is_empty() || path.contains('\0') || !Path::new(path).components().all(plain) {
        return Err(Error::Io {
            doing: format!("find sysctl {path:?}"),
            source: io::Error::from(io::ErrorKind::InvalidInput),
        });
    }
    Ok(Path::new("/proc/sys").join(path))
}

/// Turns "there is none" into `None`.
fn found<T>(result: io::Result<T>, doing: impl FnOnce() -> String) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io {
            doing: doing(),
            source,
        }),
    }
}
