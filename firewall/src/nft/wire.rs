//! The transport: one socket, questions with their answers, and batches that apply as a whole.
//!
//! An error says only its number: the kernel has no words for most of what nf_tables refuses.

use std::io;
use std::os::fd::AsFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, ParseableParametrized,
};
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterProtoFamily, NetfilterSubsystem,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::settling;

/// The kernel works on a request within the send, so that its answer is there at once. One that is
/// missing after this many seconds is lost.
const ANSWER_LIMIT: i64 = 30;

/// How often a dump is repeated that changes have interrupted; what came last is then used.
const DUMP_REPEATS: u32 = 5;

/// The kernel fills what it is given, up to 32 KiB (`NETLINK_RECV_SIZE` of its netlink code).
const RECEIVE_SIZE: usize = 32 * 1024;

/// A send buffer's usual size in bytes (`net.core.wmem_default`), half of which the kernel keeps
/// for itself.
const USUAL_BATCH: usize = 100 * 1024;

/// One message: of which family's tables it speaks, what it asks, and `NLM_F_*` that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Family of the table.
    pub family: NetfilterProtoFamily,
    /// `NLM_F_CREATE` and the like; what every request has is added.
    pub flags: u16,
    /// The message itself.
    pub body: NfTablesMessage,
}

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket {
    socket: netlink_sys::Socket,
    sequence: u32,
}

impl Drop for Socket {
    fn drop(&mut self) {
        settling::closing(self.socket.as_fd());
    }
}

impl Socket {
    /// Opens one.
    ///
    /// # Errors
    /// The kernel's: `EPROTONOSUPPORT` where it has no netfilter.
    pub fn open() -> io::Result<Socket> {
        let socket = netlink_sys::Socket::new(NETLINK_NETFILTER)?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::new(ANSWER_LIMIT, 0),
        )?;
        // An older kernel sends the whole request back with an error, which is understood as well.
        let _ = socket.set_cap_ack(true);
        Ok(Socket {
            socket,
            sequence: 0,
        })
    }

    /// Asks for one object; `None` where there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn get(&mut self, message: &Message) -> io::Result<Option<Object>> {
        let (mut found, _) = self.ask(message, NLM_F_ACK)?;
        Ok(found.pop())
    }

    /// Asks for all objects of a kind, again where changes interrupted the answer; none where the
    /// table is not there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn dump(&mut self, message: &Message) -> io::Result<Vec<Object>> {
        for _ in 0..DUMP_REPEATS {
            let (found, interrupted) = self.ask(message, NLM_F_DUMP)?;
            if !interrupted {
                return Ok(found);
            }
        }
        Ok(self.ask(message, NLM_F_DUMP)?.0)
    }

    /// Applies all messages, or none where one is refused.
    ///
    /// # Errors
    /// The first refusal.
    pub fn commit(&mut self, batch: &[Message]) -> io::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let (bytes, begin, last) = self.encode_batch(batch);
        self.exchange(&bytes, begin, last)
    }

    /// What [`Socket::commit`] would answer, without a change: the kernel works through a batch that
    /// has no end, and takes all of it back. As `nft --check`.
    ///
    /// # Errors
    /// The first refusal.
    pub fn rehearse(&mut self, batch: &[Message]) -> io::Result<()> {
        let (bytes, begin, last) = self.encode_begun(batch);
        self.exchange(&bytes, begin, last)
    }

    /// Sends a batch and waits for the answer to its last message.
    fn exchange(&mut self, bytes: &[u8], begin: u32, last: u32) -> io::Result<()> {
        if bytes.len() > USUAL_BATCH {
            // Beyond the node's limit where the kernel lets us; else the send says what is wrong.
            if setsockopt(&self.socket, sockopt::SndBufForce, &bytes.len()).is_err() {
                let _ = setsockopt(&self.socket, sockopt::SndBuf, &bytes.len());
            }
        }
        self.socket.send(bytes, 0)?;
        let mut refused = None;
        let mut buffer = Vec::with_capacity(RECEIVE_SIZE);
        loop {
            for (header, payload) in self.receive(&mut buffer)? {
                let NetlinkPayload::Error(answer) = payload else {
                    continue;
                };
                let sequence = header.sequence_number;
                if !(begin..=last).contains(&sequence) {
                    continue;
                }
                if answer.code.is_some() {
                    refused.get_or_insert(answer.to_io());
                }
                // One that is about the batch itself may be the only one.
                if sequence == last || (sequence == begin && refused.is_some()) {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// The bytes of a batch, and the sequence numbers of its begin and of its last message, the one
    /// that is acknowledged.
    fn encode_batch(&mut self, batch: &[Message]) -> (Vec<u8>, u32, u32) {
        let (mut bytes, begin, last) = self.encode_begun(batch);
        let end = self.next();
        encode(&mut bytes, control(ControlMessage::BatchEnd), 0, end);
        (bytes, begin, last)
    }

    /// The same without its end.
    fn encode_begun(&mut self, batch: &[Message]) -> (Vec<u8>, u32, u32) {
        let begin = self.next();
        let mut bytes = Vec::new();
        encode(&mut bytes, control(ControlMessage::BatchBegin), 0, begin);
        let mut last = begin;
        for (index, message) in batch.iter().enumerate() {
            last = self.next();
            let acknowledged = if index.saturating_add(1) == batch.len() {
                NLM_F_ACK
            } else {
                0
            };
            let flags = message.flags | acknowledged;
            encode(&mut bytes, message.inner(), flags, last);
        }
        (bytes, begin, last)
    }

    /// Sends one request. Returns its objects, and whether changes interrupted the answer.
    fn ask(&mut self, message: &Message, flags: u16) -> io::Result<(Vec<Object>, bool)> {
        let sequence = self.next();
        let mut bytes = Vec::new();
        encode(&mut bytes, message.inner(), message.flags | flags, sequence);
        self.socket.send(&bytes, 0)?;
        let mut found = Vec::new();
        let mut interrupted = false;
        let mut buffer = Vec::with_capacity(RECEIVE_SIZE);
        loop {
            for (header, payload) in self.receive(&mut buffer)? {
                if header.sequence_number != sequence {
                    continue;
                }
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                let code = match payload {
                    NetlinkPayload::InnerMessage(object) => {
                        found.push(object);
                        continue;
                    }
                    NetlinkPayload::Error(answer) => answer.raw_code(),
                    NetlinkPayload::Done(done) => done.code,
                    _ => continue,
                };
                let refusal = io::Error::from_raw_os_error(code.saturating_abs());
                return match Errno::from_raw(code.saturating_abs()) {
                    _ if code == 0 => Ok((found, interrupted)),
                    Errno::ENOENT => Ok((Vec::new(), interrupted)),
                    _ => Err(refusal),
                };
            }
        }
    }

    /// The messages of the next datagram.
    fn receive(
        &self,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Vec<(NetlinkHeader, NetlinkPayload<Object>)>> {
        buffer.clear();
        self.socket.recv(buffer, 0)?;
        let messages = messages(buffer);
        #[cfg(test)]
        tests::count(messages.len());
        Ok(messages)
    }

    fn next(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

/// The messages of a datagram.
pub fn messages(mut rest: &[u8]) -> Vec<(NetlinkHeader, NetlinkPayload<Object>)> {
    let mut messages = Vec::new();
    while let Ok(frame) = NetlinkBuffer::new_checked(rest) {
        let length = usize::try_from(frame.length()).unwrap_or(usize::MAX);
        let whole = rest.get(..length).unwrap_or_default();
        if let Ok(message) = NetlinkMessage::<Object>::deserialize(whole) {
            messages.push(message.into_parts());
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

/// An object as the kernel tells of it, undecoded: the crate's own way of decoding a list formats the
/// whole of it once for each of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    kind: u16,
    /// What is behind the headers.
    pub attributes: Vec<u8>,
}

impl Object {
    /// A table or a chain; `None` for all else: it may hold long lists, or data whose length is not
    /// looked at in decoding.
    pub fn decode(&self) -> Option<NfTablesMessage> {
        /// `NFT_MSG_NEWTABLE` and `NFT_MSG_NEWCHAIN` of linux/netfilter/nf_tables.h.
        const NEW: [u8; 2] = [0, 3];
        let [_, kind] = self.kind.to_be_bytes();
        if !NEW.contains(&kind) {
            return None;
        }
        NfTablesMessage::parse_with_param(&self.attributes, kind).ok()
    }
}

impl NetlinkDeserializable for Object {
    type Error = std::convert::Infallible;

    fn deserialize(header: &NetlinkHeader, body: &[u8]) -> Result<Object, Self::Error> {
        /// Of `struct nfgenmsg`.
        const HEADER_LEN: usize = 4;
        Ok(Object {
            kind: header.message_type,
            attributes: body.get(HEADER_LEN..).unwrap_or_default().to_vec(),
        })
    }
}

impl Message {
    fn inner(&self) -> NetfilterMessage {
        NetfilterMessage::new(NetfilterHeader::new(self.family, 0, 0), self.body.clone())
    }
}

/// The begin or end of a batch.
fn control(message: ControlMessage) -> NetfilterMessage {
    // The subsystem that the batch is for, as linux/netfilter/nfnetlink.h asks.
    let subsystem = u8::from(NetfilterSubsystem::NfTables).into();
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, subsystem);
    NetfilterMessage::new(header, message)
}

/// Appends a request.
fn encode(bytes: &mut Vec<u8>, message: NetfilterMessage, flags: u16, sequence: u32) {
    let mut header = NetlinkHeader::default();
    header.flags = flags | NLM_F_REQUEST;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let start = bytes.len();
    bytes.resize(start.saturating_add(message.buffer_len()), 0);
    if let Some(place) = bytes.get_mut(start..) {
        message.serialize(place);
    }
}

#[cfg(test)]
pub mod tests;
