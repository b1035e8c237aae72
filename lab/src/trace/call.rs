//! One system call of a stopped thread: its registers, and the memory that they lead to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::libc::{self, MSG_PEEK, c_long, user_regs_struct};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::netlink;

/// The most of a message that is looked at, in bytes.
const MOST: usize = 1 << 20;
/// Where `struct msghdr` has the address of its first `struct iovec`: an address and a length.
const IOVECS: u64 = 16;

const SENDS: [c_long; 3] = [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_write];
const RECEIVES: [c_long; 3] = [libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_read];

/// The number of the call that is about to be made.
pub fn number(thread: Pid) -> Option<u64> {
    Some(ptrace::getregs(thread).ok()?.orig_rax)
}

/// Stops the call that is about to be made; not `close`, which frees its descriptor whatever it
/// answers.
pub fn skip(thread: Pid) -> nix::Result<()> {
    let mut registers = ptrace::getregs(thread)?;
    if kind(&registers) != libc::SYS_close {
        registers.orig_rax = u64::MAX;
        ptrace::setregs(thread, registers)?;
    }
    Ok(())
}

/// Makes the call that has returned have failed.
pub fn fail(thread: Pid, errno: Errno) -> nix::Result<()> {
    let mut registers = ptrace::getregs(thread)?;
    registers.rax = i64::from(errno as i32).wrapping_neg().cast_unsigned();
    ptrace::setregs(thread, registers)
}

/// Spoils the netlink request that is about to be sent; where, and what was there.
pub fn spoil(thread: Pid) -> nix::Result<Option<(u64, [u8; 2])>> {
    let registers = ptrace::getregs(thread)?;
    if !SENDS.contains(&kind(&registers)) {
        return Ok(None);
    }
    let Ok((address, mut bytes)) = buffer(thread, &registers, MOST) else {
        return Ok(None);
    };
    let Some((offset, before)) = netlink::spoil(&mut bytes) else {
        return Ok(None);
    };
    put(thread, address, &bytes);
    Ok(Some((address + offset as u64, before)))
}

/// Changes the netlink messages that the call which has returned has read; whether there were any to
/// change.
pub fn change(thread: Pid, how: impl FnOnce(&mut [u8]) -> bool) -> nix::Result<bool> {
    let registers = ptrace::getregs(thread)?;
    let read = usize::try_from(registers.rax.cast_signed()).unwrap_or_default();
    if !RECEIVES.contains(&kind(&registers)) {
        return Ok(false);
    }
    let Ok((address, mut bytes)) = buffer(thread, &registers, read.min(MOST)) else {
        return Ok(false);
    };
    let changed = how(&mut bytes);
    if changed {
        put(thread, address, &bytes);
    }
    Ok(changed)
}

/// Whether the call only looks at what the next one is given again.
pub fn peeks(thread: Pid) -> nix::Result<bool> {
    let registers = ptrace::getregs(thread)?;
    let flags = match kind(&registers) {
        libc::SYS_recvfrom => registers.r10,
        libc::SYS_recvmsg => registers.rdx,
        _ => 0,
    };
    Ok(flags & u64::from(MSG_PEEK.cast_unsigned()) != 0)
}

/// Puts bytes into the thread's memory.
pub fn put(thread: Pid, address: u64, bytes: &[u8]) {
    // It may have been killed meanwhile.
    let _ = memory(thread).and_then(|memory| memory.write_all_at(bytes, address));
}

fn kind(registers: &user_regs_struct) -> c_long {
    registers.orig_rax.cast_signed()
}

/// What the call sends or has read, or the first part of it, at most so many bytes; and where it is.
fn buffer(thread: Pid, registers: &user_regs_struct, most: usize) -> io::Result<(u64, Vec<u8>)> {
    let memory = memory(thread)?;
    let whole = [libc::SYS_sendmsg, libc::SYS_recvmsg];
    let (address, length) = if whole.contains(&kind(registers)) {
        let first = word(&memory, registers.rsi + IOVECS)?;
        (word(&memory, first)?, word(&memory, first + 8)?)
    } else {
        (registers.rsi, registers.rdx)
    };
    let length = usize::try_from(length).map_or(most, |length| length.min(most));
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, address)?;
    Ok((address, bytes))
}

fn word(memory: &File, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn memory(thread: Pid) -> io::Result<File> {
    let file = format!("/proc/{thread}/mem");
    File::options().read(true).write(true).open(file)
}
