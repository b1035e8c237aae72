//! A router that makes itself known.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Doing;
use crate::{Error, Namespace, Result};

/// A router advertisement (RFC 4861, section 4.2): hop limit 64, a default router for 1800 s, and
/// nothing else. The kernel fills in the checksum.
const ADVERTISEMENT: [u8; 16] = [134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
/// `ff02::1`, all nodes of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Namespace {
    /// Sends one router advertisement by the link. Its link-local address must be usable.
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses.
    pub fn advertise(&self, link: &str) -> Result<()> {
        let name = self.name();
        let found = self.netlink()?.link(link)?;
        let found = found.ok_or_else(|| Error::Failed(format!("{name}: no link {link:?}")))?;
        let send = || -> io::Result<()> {
            let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
            // One with less may have come through a router, and is not believed.
            socket.set_multicast_hops_v6(255)?;
            let to = SocketAddrV6::new(ALL_NODES, 0, 0, found.index);
            socket.send_to(&ADVERTISEMENT, &to.into()).map(drop)
        };
        self.run(send)?
            .doing(format!("advertise a router by {link} of {name}"))
    }
}
