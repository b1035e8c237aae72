//! The system calls that no library makes safely. All other crates forbid `unsafe`: what is asked of
//! the kernel by a number and a pointer is asked here, behind functions that cannot be misused.

use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;

/// What kind of namespace a file is: `CLONE_NEWNET`, or another flag of clone(2). The file must be a
/// namespace's: other drivers give the request's number meanings of their own.
///
/// # Errors
/// `ENOTTY` where it is no namespace, or the kernel does not tell (before Linux 4.11).
pub fn namespace_kind(file: impl AsFd) -> nix::Result<libc::c_int> {
    /// `NS_GET_NSTYPE` of linux/nsfs.h: `_IO(0xb7, 0x3)`.
    const NS_GET_NSTYPE: libc::Ioctl = nix::request_code_none!(0xb7, 0x3) as libc::Ioctl;
    let file = file.as_fd();
    // SAFETY: the descriptor is open for as long as it is borrowed. This request takes no argument, so
    // that the kernel writes no memory of ours.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_NSTYPE) };
    Errno::result(kind)
}

/// The protocol whose legacy tables are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// Of iptables.
    V4,
    /// Of ip6tables.
    V6,
}

/// What is asked of a legacy table. The answer is written over the question, which begins with the
/// table's name (linux/netfilter_ipv4/ip_tables.h; those of IPv6 have the same numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// `IPT_SO_GET_INFO`: `struct ipt_getinfo`.
    Info,
    /// `IPT_SO_GET_ENTRIES`: `struct ipt_get_entries` with the entries behind it.
    Entries,
}

/// Asks the kernel about a legacy table, by a raw socket of the tables' protocol.
///
/// # Errors
/// The kernel's: `EPERM` without `CAP_NET_ADMIN`, `EAGAIN` where the table has changed since its size
/// was asked for.
pub fn ask_table(
    socket: impl AsFd,
    tables: Tables,
    question: Question,
    buffer: &mut [u8],
) -> nix::Result<()> {
    let level = match tables {
        Tables::V4 => libc::IPPROTO_IP,
        Tables::V6 => libc::IPPROTO_IPV6,
    };
    let name = match question {
        Question::Info => 64,
        Question::Entries => 65,
    };
    let length = libc::socklen_t::try_from(buffer.len());
    let mut length = length.map_err(|_| Errno::EOVERFLOW)?;
    let socket = socket.as_fd();
    // SAFETY: the descriptor is open for as long as it is borrowed. The kernel reads and writes at most
    // `length` bytes, which is what the buffer has, and writes the length itself.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(done).map(drop)
}

/// Has the program that is started be traced by the thread that starts it (ptrace(2): it stops when it
/// has been loaded).
pub fn be_traced(command: &mut Command) {
    // SAFETY: between fork and exec this makes one system call, and allocates and locks nothing.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_namespace_tells_its_kind_and_nothing_else_does() {
        let kind = |path: &str| namespace_kind(File::open(path).unwrap());
        assert_eq!(kind("/proc/self/ns/net"), Ok(libc::CLONE_NEWNET));
        assert_eq!(kind("/proc/self/ns/uts"), Ok(libc::CLONE_NEWUTS));
        assert_eq!(kind("/proc/self/status"), Err(Errno::ENOTTY));
    }

    #[test]
    fn no_table_is_asked_for_by_what_is_no_socket() {
        let file = File::open("/proc/self/status").unwrap();
        for question in [Question::Info, Question::Entries] {
            for tables in [Tables::V4, Tables::V6] {
                let asked = ask_table(&file, tables, question, &mut [0; 84]);
                assert_eq!(asked, Err(Errno::ENOTSOCK));
            }
        }
    }
}
