//! Netlink messages as they lie in a program's memory: what is asked for is made something that the kernel
//! refuses, and its answers say other errors.

use std::ops::Range;

use nix::errno::Errno;
use nix::libc::{NLM_F_DUMP_INTR, NLM_F_MULTI, NLM_F_REQUEST, NLMSG_ERROR};

/// `struct nlmsghdr` of linux/netlink.h: length (4 bytes), type (2), flags (2), number (4), port (4).
const HEADER: usize = 16;
const TYPE: Range<usize> = 4..6;
const FLAGS: Range<usize> = 6..8;
/// The first type that is not of netlink itself, and the two that begin and end a batch of nfnetlink.
const FIRST: u16 = 0x10;
const BATCH: [u16; 2] = [0x10, 0x11];
/// Of every subsystem's types the last, which is none of its own.
const UNKNOWN: u16 = 0xff;

/// Gives the first request of the bytes a type that its subsystem does not know; where that is, and
/// what was there. `None` where they hold no request.
pub fn spoil(bytes: &mut [u8]) -> Option<(usize, [u8; 2])> {
    let asks = |bytes: &[u8], start| {
        let flags = number(bytes, start, FLAGS)?;
        let kind = number(bytes, start, TYPE)?;
        let is_batch = BATCH.contains(&kind) && flags <= 1 && length(bytes, start)? <= HEADER + 4;
        Some(kind >= FIRST && flags & flag(NLM_F_REQUEST) != 0 && !is_batch)
    };
    let start = starts(bytes).find(|start| asks(bytes, *start) == Some(true))?;
    let kind = number(bytes, start, TYPE)?;
    put(bytes, start, TYPE, kind | UNKNOWN);
    Some((start + TYPE.start, kind.to_ne_bytes()))
}

/// Makes every error among the bytes' messages that one; whether there was any.
pub fn refuse(bytes: &mut [u8], errno: Errno) -> bool {
    let error = (errno as i32).wrapping_neg().to_ne_bytes();
    let mut refused = false;
    for start in starts(bytes) {
        let is_error = number(bytes, start, TYPE).map(i32::from) == Some(NLMSG_ERROR);
        let code = bytes.get_mut(start + HEADER..start + HEADER + error.len());
        if let Some(code) = code.filter(|code| is_error && code.iter().any(|byte| *byte != 0)) {
            code.copy_from_slice(&error);
            refused = true;
        }
    }
    refused
}

/// Says of every message of a dump that the dump was interrupted; whether there was any.
pub fn interrupt(bytes: &mut [u8]) -> bool {
    let mut interrupted = false;
    for start in starts(bytes) {
        let flags = number(bytes, start, FLAGS);
        if let Some(flags) = flags.filter(|flags| flags & flag(NLM_F_MULTI) != 0) {
            put(bytes, start, FLAGS, flags | flag(NLM_F_DUMP_INTR));
            interrupted = true;
        }
    }
    interrupted
}

/// Where messages begin. What is no message as a whole ends the list: not all bytes are netlink's.
fn starts(bytes: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let mut all = Vec::new();
    let mut start = 0;
    while let Some(length) = length(bytes, start) {
        if length < HEADER || start + length > bytes.len() {
            break;
        }
        all.push(start);
        start += length.next_multiple_of(4);
    }
    all.into_iter()
}

fn length(bytes: &[u8], start: usize) -> Option<usize> {
    let length = bytes.get(start..start + 4)?.try_into().ok()?;
    usize::try_from(u32::from_ne_bytes(length)).ok()
}

fn number(bytes: &[u8], start: usize, field: Range<usize>) -> Option<u16> {
    let two = bytes.get(start + field.start..start + field.end)?;
    Some(u16::from_ne_bytes(two.try_into().ok()?))
}

fn put(bytes: &mut [u8], start: usize, field: Range<usize>, value: u16) {
    if let Some(two) = bytes.get_mut(start + field.start..start + field.end) {
        two.copy_from_slice(&value.to_ne_bytes());
    }
}

/// A flag of a message's header, which has 16 bits.
fn flag(flag: i32) -> u16 {
    u16::try_from(flag).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + payload.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn the_first_request_of_a_batch_is_spoilt() {
        let begin = message(0x10, 1, &[0; 4]);
        let table = message(0x0a00, 0x0405, &[7; 8]);
        let mut batch = [begin.clone(), table.clone(), table].concat();
        let found = spoil(&mut batch);
        assert_eq!(found, Some((begin.len() + 4, 0x0a00_u16.to_ne_bytes())));
        assert_eq!(number(&batch, begin.len(), TYPE), Some(0x0aff));
        assert_eq!(spoil(&mut begin.clone()), None);
        // RTM_NEWLINK has the number of a batch's beginning.
        let mut link = message(0x10, 0x0605, &[0; 16]);
        assert_eq!(spoil(&mut link), Some((4, 0x10_u16.to_ne_bytes())));
    }

    #[test]
    fn what_is_no_request_is_let_alone() {
        for bytes in [
            b"".to_vec(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            message(0x10, 0, &[]),
        ] {
            let mut tried = bytes.clone();
            assert_eq!(spoil(&mut tried), None);
            assert!(!refuse(&mut tried, Errno::EBUSY) && !interrupt(&mut tried));
            assert_eq!(tried, bytes);
        }
    }

    #[test]
    fn errors_are_others_and_a_success_stays_one() {
        let mut bytes = [
            message(2, 0, &[0; 4]),
            message(2, 0, &[0xa1, 255, 255, 255]),
        ]
        .concat();
        assert!(refuse(&mut bytes, Errno::EBUSY));
        assert_eq!(bytes[16..20], [0; 4]);
        assert_eq!(bytes[36..40], (-16_i32).to_ne_bytes());
        assert!(!refuse(&mut message(2, 0, &[0; 4]), Errno::EBUSY));
    }

    #[test]
    fn a_dump_is_interrupted() {
        let mut bytes = [message(0x10, 2, &[1; 3]), vec![0], message(3, 2, &[0; 4])].concat();
        assert!(interrupt(&mut bytes));
        assert_eq!(number(&bytes, 0, FLAGS), Some(0x12));
        assert_eq!(number(&bytes, 20, FLAGS), Some(0x12));
    }
}
