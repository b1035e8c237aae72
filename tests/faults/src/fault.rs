//! What is done to a system call.

use std::fmt;

use lab::trace::Next;
use nix::errno::Errno;
use nix::libc::{self, c_long};

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process that is about to make the call is killed.
    Kill,
    /// The call fails with that error.
    Fail(Errno),
    /// The kernel refuses what the call asks for by netlink: EBUSY.
    Refuse,
    /// The dump that the call reads by netlink was interrupted.
    Interrupt,
}

/// Faults of one kind are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Kills.
    Kill,
    /// System calls that fail.
    Error,
    /// Netlink that answers EBUSY, or whose dump was interrupted.
    Netlink,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Kill, Kind::Error, Kind::Netlink];
}

/// The errors that system calls fail with.
const ERRORS: [Errno; 9] = [
    Errno::ENOSPC,
    Errno::EIO,
    Errno::EROFS,
    Errno::EMFILE,
    Errno::EINTR,
    Errno::EAGAIN,
    Errno::EBUSY,
    Errno::ENOMEM,
    Errno::EPERM,
];

/// Calls that cannot fail, or that tell of it otherwise than by an error.
const CERTAIN: [c_long; 19] = [
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_brk,
    libc::SYS_umask,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_munmap,
];

/// Calls that wait: nothing but a signal ends them early.
const WAITS: [c_long; 10] = [
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_getrandom,
    libc::SYS_pselect6,
];

/// The same two kinds, of calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLD: ([c_long; 1], [c_long; 3]) = (
    [libc::SYS_arch_prctl],
    [libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_select],
);
#[cfg(not(target_arch = "x86_64"))]
const OLD: ([c_long; 0], [c_long; 0]) = ([], []);

/// Calls for memory: either there is some or not.
const MEMORY: [c_long; 5] = [
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_sigaltstack,
];

impl Fault {
    /// The names of all kinds there are.
    pub fn names() -> Vec<String> {
        let errors = ERRORS.into_iter().map(Fault::Fail);
        let all = std::iter::once(Fault::Kill).chain(errors);
        let all = all.chain([Fault::Refuse, Fault::Interrupt]);
        all.map(|fault| fault.to_string()).collect()
    }

    /// All that can happen to a call of that number.
    pub fn all_of(number: u64) -> Vec<Fault> {
        let number = c_long::try_from(number).unwrap_or(-1);
        let mut all = vec![Fault::Kill];
        if !lab::trace::CAN_FAIL {
            return all;
        }
        let errors = ERRORS.into_iter().filter(|errno| can_fail(number, *errno));
        all.extend(errors.map(Fault::Fail));
        if [libc::SYS_sendto, libc::SYS_sendmsg].contains(&number) {
            all.push(Fault::Refuse);
        }
        if [libc::SYS_recvfrom, libc::SYS_recvmsg].contains(&number) {
            all.push(Fault::Interrupt);
        }
        all
    }

    /// Whether a process may die of it as of a kill, and have no answer: without memory it has none, and
    /// one that cannot come back into its namespace must do nothing more.
    pub fn may_be_deadly(self, number: u64) -> bool {
        let number = c_long::try_from(number).unwrap_or(-1);
        self == Fault::Kill || number == libc::SYS_setns || MEMORY.contains(&number)
    }

    /// With what it is counted.
    pub fn kind(self) -> Kind {
        match self {
            Fault::Kill => Kind::Kill,
            Fault::Fail(_) => Kind::Error,
            Fault::Refuse | Fault::Interrupt => Kind::Netlink,
        }
    }

    /// What the tracer is told.
    pub fn next(self) -> Next {
        match self {
            Fault::Kill => Next::Kill,
            Fault::Fail(errno) => Next::Fail(errno),
            Fault::Refuse => Next::Refuse(Errno::EBUSY),
            Fault::Interrupt => Next::Interrupt,
        }
    }
}

/// Whether the kernel can answer that call with that error.
fn can_fail(number: c_long, errno: Errno) -> bool {
    let (certain, waits) = OLD;
    if WAITS.contains(&number) || waits.contains(&number) {
        return errno == Errno::EINTR;
    }
    if MEMORY.contains(&number) {
        return errno == Errno::ENOMEM;
    }
    number >= 0 && !CERTAIN.contains(&number) && !certain.contains(&number)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill => f.write_str("kill"),
            Fault::Fail(errno) => write!(f, "{errno:?}"),
            Fault::Refuse => f.write_str("netlink-busy"),
            Fault::Interrupt => f.write_str("dump-interrupted"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Kill => "killed",
            Kind::Error => "error",
            Kind::Netlink => "netlink",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: c_long) -> Vec<String> {
        let all = Fault::all_of(number.try_into().unwrap());
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_call_can_be_killed_and_not_every_one_fails() {
        assert_eq!(of(libc::SYS_exit_group), ["kill"]);
        if lab::trace::CAN_FAIL {
            assert_eq!(of(libc::SYS_futex), ["kill", "EINTR"]);
            assert_eq!(of(libc::SYS_openat).len(), 1 + ERRORS.len());
            assert_eq!(of(libc::SYS_sendto).last().unwrap(), "netlink-busy");
            assert_eq!(of(libc::SYS_recvmsg).last().unwrap(), "dump-interrupted");
        }
    }
}
