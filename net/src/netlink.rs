//! The transport: sockets, requests and their answers, events.
//!
//! Messages travel through `netlink-proto` undecoded, as [`Packet`]s. So one connection type serves
//! both families (route and netfilter), and an answer that cannot be decoded is an error here
//! instead of a request that is never answered.

use std::fmt::{Arguments, Debug};
use std::io;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO,
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, SocketAddr};
use rtnetlink::MulticastGroup;
use rtnetlink::proto::{ConnectionHandle, new_connection};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

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

/// One route socket. It stays in the namespace that it was opened in, wherever its thread goes.
/// Not for use within an async task: it drives a runtime of its own.
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
        let runtime = &self.socket.runtime;
        let mut events = self.netns.enter(|| Events::open(runtime, group))??;
        // Looking again comes after the socket is open: nothing can happen unseen in between.
        loop {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            let left = deadline.saturating_sub(started.elapsed());
            let event = events.next(&concerns);
            if runtime
                .block_on(async { tokio::time::timeout(left, event).await })
                .is_err()
            {
                return look();
            }
        }
    }
}

/// A netlink socket of either family, with the runtime that drives it.
#[derive(Debug)]
pub(crate) struct Socket {
    runtime: Runtime,
    handle: ConnectionHandle<Packet>,
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let guard = runtime.enter();
        let (mut connection, handle, _) = new_connection(protocol)?;
        drop(guard);
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        let socket = connection.socket_mut().socket_mut();
        // Each of them only adds: older kernels, which lack one, are understood as well.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        if protocol == NETLINK_ROUTE {
            let _ = socket.set_netlink_get_strict_chk(true);
        }
        runtime.spawn(connection);
        Ok(Socket { runtime, handle })
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
        each: impl FnMut(&NetlinkHeader, Packet) -> Result<()>,
    ) -> Result<bool> {
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        let payload = NetlinkPayload::InnerMessage(Packet::of(message));
        let request = NetlinkMessage::new(header, payload);
        self.runtime.block_on(self.answer(request, doing, each))
    }

    async fn answer(
        &self,
        request: NetlinkMessage<Packet>,
        doing: Arguments<'_>,
        mut each: impl FnMut(&NetlinkHeader, Packet) -> Result<()>,
    ) -> Result<bool> {
        let lost = || Error::Protocol(format!("{doing}: no answer from the kernel"));
        let mut answers = self
            .handle
            .request(request, SocketAddr::new(0, 0))
            .map_err(|_| lost())?;
        let mut interrupted = false;
        loop {
            let next = tokio::time::timeout(ANSWER_LIMIT, answers.next()).await;
            let (header, payload) = next.ok().flatten().ok_or_else(lost)?.into_parts();
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
fn refusal_text(flags: u16, answer: &ErrorMessage) -> String {
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
fn attribute_text(attributes: &[u8]) -> String {
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
struct Events {
    messages: futures_channel::mpsc::UnboundedReceiver<(NetlinkMessage<Packet>, SocketAddr)>,
    connection: AbortHandle,
}

impl Events {
    /// Opens one for a group of events in the calling thread's namespace.
    fn open(runtime: &Runtime, group: MulticastGroup) -> Result<Events> {
        let open = || {
            let guard = runtime.enter();
            let (mut connection, _, messages) = new_connection(NETLINK_ROUTE)?;
            drop(guard);
            let socket = connection.socket_mut().socket_mut();
            // A socket without an address hears nothing.
            socket.bind_auto()?;
            socket.add_membership(group as u32)?;
            let connection = runtime.spawn(connection).abort_handle();
            Ok(Events {
                messages,
                connection,
            })
        };
        open().map_err(|source| Error::Io {
            doing: "listen to netlink events".to_owned(),
            source,
        })
    }

    /// Waits for an event that concerns the matter, or of which that cannot be said (one that was
    /// lost, or that cannot be decoded).
    async fn next(&mut self, concerns: impl Fn(&RouteNetlinkMessage) -> bool) {
        while let Some((message, _)) = self.messages.next().await {
            let (header, payload) = message.into_parts();
            let NetlinkPayload::InnerMessage(packet) = payload else {
                return;
            };
            match RouteNetlinkMessage::deserialize(&header, &packet.body) {
                Ok(event) if !concerns(&event) => {}
                _ => return,
            }
        }
        // The socket is broken: only the deadline is left to end the wait.
        std::future::pending().await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A message's payload, undecoded.
#[derive(Debug)]
pub(crate) struct Packet {
    kind: u16,
    body: Vec<u8>,
}

impl Packet {
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
