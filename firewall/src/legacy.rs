//! The chains of the legacy table `nat`, asked of the kernel without a program.

use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use raw::{Question, Tables, ask_table};

use crate::rule::Family;

/// `XT_TABLE_MAXNAMELEN` of linux/netfilter/x_tables.h.
const TABLE_NAME_LEN: usize = 32;
/// Bytes of `struct ipt_getinfo`, the last four of which are the size of the entries.
const INFO_LEN: usize = 84;

/// How often the table is read again that others have changed between the two questions.
const ATTEMPTS: u32 = 10;

/// The names of the chains that somebody has made. Asked for a table that is not there, the kernel
/// makes it: it must be.
///
/// # Errors
/// The kernel's: `EPERM` without `CAP_NET_ADMIN`.
pub fn chains(family: Family) -> io::Result<Vec<String>> {
    let inet = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(inet, SockType::Raw, flags, SockProtocol::Raw)?;
    let mut attempt = 1_u32;
    loop {
        match entries(&socket, family) {
            Err(Errno::EAGAIN) if attempt < ATTEMPTS => {}
            entries => return Ok(names(&entries?, family)),
        }
        attempt = attempt.saturating_add(1);
    }
}

/// The table's entries as the kernel holds them.
fn entries(socket: &OwnedFd, family: Family) -> nix::Result<Vec<u8>> {
    let tables = match family {
        Family::V4 => Tables::V4,
        Family::V6 => Tables::V6,
    };
    let mut info = b"nat".to_vec();
    info.resize(INFO_LEN, 0);
    ask_table(socket, tables, Question::Info, &mut info)?;
    let size = info.last_chunk().copied().map_or(0, u32::from_ne_bytes);
    let mut table = b"nat".to_vec();
    table.resize(TABLE_NAME_LEN, 0);
    table.extend(size.to_ne_bytes());
    // Entries begin where a counter of theirs may.
    let begin = table.len().next_multiple_of(align_of::<u64>());
    let size = usize::try_from(size).map_err(|_| Errno::EOVERFLOW)?;
    table.resize(begin.saturating_add(size), 0);
    ask_table(socket, tables, Question::Entries, &mut table)?;
    Ok(table.split_off(begin))
}

/// The names of chains in a table's entries: a chain begins with an entry whose target is `ERROR`,
/// which tells it (`struct ipt_entry` and `struct ip6t_entry`, `struct xt_error_target`).
fn names(entries: &[u8], family: Family) -> Vec<String> {
    // Where an entry tells where its target and the next entry are: behind what it matches.
    let offsets = match family {
        Family::V4 => 88,
        Family::V6 => 140,
    };
    let mut names = Vec::new();
    let mut rest = entries;
    while let Some([a, b, c, d]) = rest.get(offsets..).and_then(<[u8]>::first_chunk) {
        let target = usize::from(u16::from_ne_bytes([*a, *b]));
        let next = usize::from(u16::from_ne_bytes([*c, *d]));
        names.extend(rest.get(target..next).and_then(error));
        match rest.get(next..) {
            Some(after) if next > 0 => rest = after,
            _ => break,
        }
    }
    // The table ends with one.
    names.retain(|name| name != ERROR);
    names
}

/// `XT_ERROR_TARGET` of linux/netfilter/x_tables.h.
const ERROR: &str = "ERROR";

/// What a target tells that is `ERROR`: its name is behind two bytes of length, the text behind the
/// header of 32 bytes.
fn error(target: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| {
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let is_error = text(target.get(2..31)?)? == ERROR;
    is_error.then(|| text(target.get(32..)?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry whose target has a name and a text behind its header.
    fn entry(family: Family, target: &str, text: &str) -> Vec<u8> {
        let (offsets, begin) = match family {
            Family::V4 => (88_usize, 112_u16),
            Family::V6 => (140, 168),
        };
        let end = begin + 64;
        let mut bytes = vec![0; end.into()];
        bytes[offsets..][..2].copy_from_slice(&begin.to_ne_bytes());
        bytes[offsets + 2..][..2].copy_from_slice(&end.to_ne_bytes());
        let at = usize::from(begin);
        bytes[at + 2..][..target.len()].copy_from_slice(target.as_bytes());
        bytes[at + 32..][..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn chains_are_those_that_begin_with_an_error() {
        for family in Family::ALL {
            let entries = [
                entry(family, "", ""),
                entry(family, "ERROR", "CNI-A"),
                entry(family, "DNAT", "CNI-B"),
                entry(family, "ERROR", "MINE"),
                entry(family, "ERROR", "ERROR"),
            ]
            .concat();
            assert_eq!(names(&entries, family), ["CNI-A", "MINE"]);
            // However it is cut, or broken.
            for length in 0..entries.len() {
                assert!(names(&entries[..length], family).len() <= 2);
            }
            assert_eq!(names(&vec![0xff; 1000], family), [""; 0]);
            assert_eq!(names(&vec![0; 1000], family), [""; 0]);
        }
    }
}
