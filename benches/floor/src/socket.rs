//! Sockets that send a batch and wait for the answer to it.

use std::io;

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};

use crate::message::Batch;

/// `NLMSG_ERROR`, which an acknowledgement is, too.
const ERROR: u16 = 2;

/// A netlink socket of the namespace it was opened in.
#[derive(Debug)]
pub struct Socket {
    socket: netlink_sys::Socket,
}

impl Socket {
    /// For links, addresses, routes and queueing disciplines.
    pub fn route() -> io::Result<Socket> {
        Socket::open(NETLINK_ROUTE)
    }

    /// For nf_tables.
    pub fn netfilter() -> io::Result<Socket> {
        Socket::open(NETLINK_NETFILTER)
    }

    fn open(protocol: isize) -> io::Result<Socket> {
        let socket = netlink_sys::Socket::new(protocol)?;
        socket.set_cap_ack(true)?;
        Ok(Socket { socket })
    }

    /// Sends the batch, and waits until it is done or a message of it is refused.
    pub fn send(&mut self, batch: &Batch) -> io::Result<()> {
        self.socket.send(batch.bytes(), 0)?;
        let mut buffer = Vec::with_capacity(8192);
        loop {
            buffer.clear();
            self.socket.recv(&mut buffer, 0)?;
            if read(&buffer, batch.awaited())? {
                return Ok(());
            }
        }
    }
}

/// Whether the awaited acknowledgement is among the answers.
///
/// # Errors
/// What the kernel refused.
fn read(mut answers: &[u8], awaited: Option<u32>) -> io::Result<bool> {
    while let Some((header, body)) = answers.split_at_checked(16) {
        let length = field::<4>(header, 0).map_or(0, u32::from_ne_bytes) as usize;
        let kind = field::<2>(header, 4).map(u16::from_ne_bytes);
        let sequence = field::<4>(header, 8).map(u32::from_ne_bytes);
        if kind == Some(ERROR) {
            match field::<4>(body, 0).map(i32::from_ne_bytes) {
                Some(0) => {}
                Some(errno) => {
                    let error = io::Error::from_raw_os_error(-errno);
                    let sequence = sequence.unwrap_or_default();
                    return Err(io::Error::other(format!("message {sequence}: {error}")));
                }
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            if sequence == awaited {
                return Ok(true);
            }
        }
        let next = length.max(16).next_multiple_of(4).min(answers.len());
        answers = answers.get(next..).unwrap_or_default();
    }
    Ok(false)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sequence: u32, errno: i32) -> Vec<u8> {
        let [length, sequence] = [36, sequence].map(u32::to_ne_bytes);
        let (kind, errno) = (ERROR.to_ne_bytes(), errno.to_ne_bytes());
        let mut bytes = Vec::new();
        for part in [
            &length[..],
            &kind,
            &[0; 2],
            &sequence,
            &[0; 4],
            &errno,
            &[0; 16],
        ] {
            bytes.extend(part);
        }
        bytes
    }

    #[test]
    fn answers() {
        assert!(!read(&[], Some(2)).unwrap());
        assert!(!read(&answer(1, 0), Some(2)).unwrap());
        assert!(read(&[answer(1, 0), answer(2, 0)].concat(), Some(2)).unwrap());
        let refused = read(&[answer(1, -17), answer(2, 0)].concat(), Some(2)).unwrap_err();
        assert!(
            refused.to_string().starts_with("message 1: File exists"),
            "{refused}"
        );
    }
}
