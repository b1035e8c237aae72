//! The transport: sockets, requests and their answers, events.
//!
//! Answers are taken apart as [`Packet`]s, undecoded. So one socket type serves both families (route
//! and netfilter), and one object that cannot be decoded hides no other. A request is answered within
//! its send: nothing is gained by waiting for several at a time, and a plain blocking socket costs
//! the least.

use std::cell::Cell;
use std::fmt::{Arguments, Debug};
use std::io;
use std::time::{Duration, Instant};

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO,
    NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use rtnetlink::MulticastGroup;

use crate::{Error, Netns, Result};

/// How often a dump is repeated that changes have interrupted; what came last is then used.
const DUMP_REPEATS: u32 = 5;

/// The kernel works on a request within the send, so that its answer is there at once. One that
/// is missing after this long is lost.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// `NLMSGERR_ATTR_MSG` of linux/netlink.h: the text of an extended acknowledgement.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Length of `struct nlmsghdr`.
const NLMSGHDR_LEN: usize = 16;

/// The kernel fills what it is given, up to 32 KiB (`NETLINK_RECV_SIZE` of its netlink code); one
/// object alone may be larger.
const RECEIVE_SIZE: usize = 64 * 1024;

/// One route socket. It stays in the namespace that it was opened in, wherever its thread goes.
/// It blocks: not for use within an async task.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    /// Where a socket for events has to be opened.
    netns: Netns,
}

impl Netlink {
    /// A socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn current() -> Result<Netlink> {
        Ok(Netlink {
            socket: Socket::open(NETLINK_ROUTE)?,
            netns: Netns::current()?,
        })
    }

    /// A socket in another namespace, entered only to open it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn in_netns(netns: &Netns) -> Result<Netlink> {
        Ok(Netlink {
            socket: netns.enter(|| Socket::open(NETLINK_ROUTE))??,
            netns: netns.try_clone()?,
        })
    }

    /// See [`Socket::change`].
    pub(crate) fn change(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        doing: Arguments,
    ) -> Result<()> {
        self.socket.change(message, flags, doing)
    }

    /// See [`Socket::get`].
    pub(crate) fn get(
        &self,
        message: RouteNetlinkMessage,
        doing: Arguments,
    ) -> Result<Option<RouteNetlinkMessage>> {
        self.socket.get(message, doing)
    }

    /// See [`Socket::dump`].
    pub(crate) fn dump<T>(
        &self,
        message: RouteNetlinkMessage,
        doing: Arguments,
        pick: impl FnMut(RouteNetlinkMessage) -> Option<T>,
    ) -> Result<Vec<T>> {
        self.socket.dump(message, doing, pick)
    }

    /// Calls `look` until it finds something, again after each event of `group` that `concerns`
    /// the matter; `None` where `deadline` has passed before.
    pub(crate) fn wait<T>(
        &self,
        group: MulticastGroup,
        deadline: Duration,
        concerns: impl Fn(&RouteNetlinkMessage) -> bool,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        let started = Instant::now();
        let events = self.netns.enter(|| Events::open(&[group]))??;
        // Looking again comes after the socket is open: nothing can happen unseen in between.
        loop {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            let left = || deadline.saturating_sub(started.elapsed());
            if !events.next(&concerns, left)? {
                return look();
            }
        }
    }
}

/// A netlink socket of either family.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: netlink_sys::Socket,
    sequence: Cell<u32>,
}

impl Socket {
    /// Opens a socket of a protocol (`NETLINK_ROUTE`) in the calling thread's namespace.
    pub(crate) fn open(protocol: isize) -> Result<Socket> {
        Socket::try_open(protocol).map_err(|source| Error::Io {
            doing: "open a netlink socket".to_owned(),
            source,
        })
    }

    fn try_open(protocol: isize) -> io::Result<Socket> {
        let socket = netlink_sys::Socket::new(protocol)?;
        limit_receive(&socket, ANSWER_LIMIT)?;
        // Each of them only adds: older kernels, which lack one, are understood as well.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        if protocol == NETLINK_ROUTE {
            let _ = socket.set_netlink_get_strict_chk(true);
        }
        let sequence = Cell::new(0);
        Ok(Socket { socket, sequence })
    }

    /// Asks for a change and waits until it is made or refused.
    pub(crate) fn change<M: NetlinkSerializable>(
        &self,
        message: M,
        flags: u16,
        doing: Arguments,
    ) -> Result<()> {
        self.exchange(&message, flags | NLM_F_ACK, doing, |_, _| Ok(()))
            .map(|_| ())
    }

    /// Asks for one object.
    pub(crate) fn get<M>(&self, message: M, doing: Arguments) -> Result<Option<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let mut found = None;
        // ECHO: older kernels answer a qdisc's get to the listeners alone without it.
        let flags = NLM_F_ACK | NLM_F_ECHO;
        self.exchange(&message, flags, doing, |header, packet| {
            let answer = M::deserialize(header, &packet.body)
                .map_err(|error| Error::Protocol(format!("{doing}: {error}")))?;
            found = Some(answer);
            Ok(())
        })?;
        Ok(found)
    }

    /// Asks for all objects of a kind, and keeps what `pick` makes of them. Repeated where changes
    /// interrupted it. An object that cannot be decoded is left out: what is of no kind known here
    /// must not hide the others.
    pub(crate) fn dump<M, T>(
        &self,
        message: M,
        doing: Arguments,
        mut pick: impl FnMut(M) -> Option<T>,
    ) -> Result<Vec<T>>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        until_whole(|| {
            let mut found = Vec::new();
            let interrupted = self.exchange(&message, NLM_F_DUMP, doing, |header, packet| {
                let object = M::deserialize(header, &packet.body).ok();
                found.extend(object.and_then(&mut pick));
                Ok(())
            })?;
            Ok((found, interrupted))
        })
    }

    /// Sends a request and hands each object of its answer to `each`. Returns whether changes
    /// interrupted the answer.
    fn exchange(
        &self,
        message: &impl NetlinkSerializable,
        flags: u16,
        doing: Arguments,
        mut each: impl FnMut(&NetlinkHeader, Packet) -> Result<()>,
    ) -> Result<bool> {
        let sequence = self.send(message, flags, doing)?;
        let mut interrupted = false;
        let mut buffer = Vec::with_capacity(RECEIVE_SIZE);
        loop {
            self.receive(&mut buffer, doing)?;
            for answer in messages(&buffer) {
                let (header, payload) = answer.into_parts();
                // Of a request that was given up the answer may come late.
                if header.sequence_number != sequence {
                    continue;
                }
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                match payload {
                    NetlinkPayload::InnerMessage(packet) => each(&header, packet)?,
                    NetlinkPayload::Error(answer) => {
                        let text = || refusal_text(header.flags, &answer);
                        return refusal(answer.raw_code(), text, doing).map(|()| interrupted);
                    }
                    NetlinkPayload::Done(done) => {
                        let text = || attribute_text(&done.extended_ack);
                        return refusal(done.code, text, doing).map(|()| interrupted);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sends a request; the number that its answer will bear.
    fn send(
        &self,
        message: &impl NetlinkSerializable,
        flags: u16,
        doing: Arguments,
    ) -> Result<u32> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = sequence;
        let payload = NetlinkPayload::InnerMessage(Packet::of(message));
        let mut request = NetlinkMessage::new(header, payload);
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        let sent = self.socket.send(&bytes, 0);
        sent.map(|_| sequence).map_err(|source| Error::Io {
            doing: doing.to_string(),
            source,
        })
    }

    /// Waits for the next part of an answer.
    fn receive(&self, buffer: &mut Vec<u8>, doing: Arguments) -> Result<()> {
        match receive(&self.socket, buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Protocol(
                format!("{doing}: no answer from the kernel"),
            )),
            received => received.map_err(|source| Error::Io {
                doing: doing.to_string(),
                source,
            }),
        }
    }
}

/// How long a receive waits; zero would be for ever.
fn limit_receive(socket: &netlink_sys::Socket, limit: Duration) -> io::Result<()> {
    let limit = limit.max(Duration::from_millis(1));
    let limit = TimeVal::new(
        limit.as_secs().try_into().unwrap_or(i64::MAX),
        limit.subsec_micros().into(),
    );
    Ok(setsockopt(socket, sockopt::ReceiveTimeout, &limit)?)
}

/// The kernel's next datagram.
fn receive(socket: &netlink_sys::Socket, buffer: &mut Vec<u8>) -> io::Result<()> {
    loop {
        buffer.clear();
        match socket.recv(buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received.map(drop),
        }
    }
}

/// The messages of a datagram.
fn messages(datagram: &[u8]) -> impl Iterator<Item = NetlinkMessage<Packet>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = NetlinkBuffer::new_checked(rest).ok()?.length();
        let length = usize::try_from(length).ok()?;
        let message = NetlinkMessage::deserialize(rest.get(..length)?).ok();
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        message
    })
}

/// Repeats a list for as long as changes interrupt it, but not forever.
fn until_whole<T>(mut list: impl FnMut() -> Result<(T, bool)>) -> Result<T> {
    for _ in 0..DUMP_REPEATS {
        let (found, interrupted) = list()?;
        if !interrupted {
            return Ok(found);
        }
    }
    list().map(|(found, _)| found)
}

/// What an acknowledgement's code (0, or an error number below it) means.
fn refusal(code: i32, text: impl FnOnce() -> String, doing: Arguments) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::Kernel {
        doing: doing.to_string(),
        errno: code.saturating_abs(),
        text: text(),
    })
}

/// The text in the attributes that follow an `NLMSG_ERROR`'s copy of the request. The copy is the
/// request's header, and its payload too unless the flags say that it was cut.
pub(crate) fn refusal_text(flags: u16, answer: &ErrorMessage) -> String {
    if flags & NLM_F_ACK_TLVS == 0 {
        return String::new();
    }
    let copy = match answer.header.first_chunk() {
        Some(length) if flags & NLM_F_CAPPED == 0 => {
            usize::try_from(u32::from_ne_bytes(*length)).unwrap_or(usize::MAX)
        }
        _ => NLMSGHDR_LEN,
    };
    let after = copy
        .checked_next_multiple_of(4)
        .and_then(|start| answer.header.get(start..));
    attribute_text(after.unwrap_or_default())
}

/// The text among the attributes of an extended acknowledgement, or nothing.
pub(crate) fn attribute_text(attributes: &[u8]) -> String {
    NlasIterator::new(attributes)
        .map_while(std::result::Result::ok)
        .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
        .map(|attribute| {
            String::from_utf8_lossy(attribute.value())
                .trim_end_matches('\0')
                .to_owned()
        })
        .unwrap_or_default()
}

/// A socket that hears of changes.
#[derive(Debug)]
pub(crate) struct Events {
    socket: netlink_sys::Socket,
}

impl Events {
    /// Opens one for groups of events in the calling thread's namespace.
    pub(crate) fn open(groups: &[MulticastGroup]) -> Result<Events> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE)?;
            // A socket without an address hears nothing.
            socket.bind_auto()?;
            for group in groups {
                socket.add_membership(*group as u32)?;
            }
            Ok(Events { socket })
        };
        open().map_err(listening)
    }

    /// Waits for an event that concerns the matter, or of which that cannot be said (one that was
    /// lost, or that cannot be decoded); false where no time is `left` before one came.
    pub(crate) fn next(
        &self,
        concerns: impl Fn(&RouteNetlinkMessage) -> bool,
        left: impl Fn() -> Duration,
    ) -> Result<bool> {
        let is_one = |message: NetlinkMessage<Packet>| {
            let (header, payload) = message.into_parts();
            let NetlinkPayload::InnerMessage(packet) = payload else {
                return true;
            };
            let event = RouteNetlinkMessage::deserialize(&header, &packet.body);
            event.as_ref().map_or(true, &concerns)
        };
        let mut buffer = Vec::with_capacity(RECEIVE_SIZE);
        loop {
            let left = left();
            if left.is_zero() {
                return Ok(false);
            }
            limit_receive(&self.socket, left).map_err(listening)?;
            match receive(&self.socket, &mut buffer) {
                Ok(()) if messages(&buffer).any(is_one) => return Ok(true),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                    return Ok(true);
                }
                Err(error) => return Err(listening(error)),
            }
        }
    }
}

fn listening(source: io::Error) -> Error {
    Error::Io {
        doing: "listen to netlink events".to_owned(),
        source,
    }
}

/// A message's payload, undecoded.
#[derive(Debug)]
pub(crate) struct Packet {
    kind: u16,
    body: Vec<u8>,
}

impl Packet {
    #[cfg(any(test, fuzzing))]
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    fn of(message: &impl NetlinkSerializable) -> Packet {
        let mut body = vec![0; message.buffer_len()];
        message.serialize(&mut body);
        Packet {
            kind: message.message_type(),
            body,
        }
    }
}

impl NetlinkSerializable for Packet {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Packet {
    type Error = std::convert::Infallible;

    fn deserialize(header: &NetlinkHeader, body: &[u8]) -> std::result::Result<Self, Self::Error> {
        Ok(Packet {
            kind: header.message_type,
            body: body.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
