//! Sysctls of the calling thread's namespace, by their slash path below /proc/sys (an interface's
//! name may contain dots).

use crate::Result;

/// The value, trimmed; `None` where the kernel has no such sysctl.
///
/// # Errors
/// The file system's.
pub fn read(path: &str) -> Result<Option<String>> {
    let _ = path;
    todo!()
}

/// Writes the value unless it is so already; returns the value that was there. A sysctl that the
/// kernel does not have is `None` and not an error.
///
/// # Errors
/// The file system's, naming the sysctl.
pub fn write(path: &str, value: &str) -> Result<Option<String>> {
    let _ = (path, value);
    todo!()
}
