//! Links, addresses and routes (linux/if_link.h, linux/if_addr.h, linux/rtnetlink.h).

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::message::{Attributes, Batch, NEW};
use crate::{GATEWAY, PREFIX, Pod};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;

const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_GROUP: u16 = 27;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

const AF_INET: u8 = 2;
const IFF_UP: u32 = 1;

/// `struct ifinfomsg`.
fn link(index: u32, up: bool) -> Vec<u8> {
    let flags = if up { IFF_UP } else { 0 };
    let words = [0, index, flags, flags];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The pair in place: the pod's end in its namespace, the node's up and a port of the bridge.
pub fn veth_pair(pod: Pod, bridge: u32, netns: &File) -> Batch {
    let peer = |info: &mut Attributes| {
        info.nest_behind(VETH_INFO_PEER, &link(0, false), |peer| {
            peer.text(IFLA_IFNAME, "eth0")
                .number(IFLA_NET_NS_FD, netns.as_raw_fd().cast_unsigned());
        });
    };
    let pair = |pair: &mut Attributes| {
        pair.text(IFLA_IFNAME, &pod.veth())
            .number(IFLA_MASTER, bridge)
            .number(IFLA_GROUP, pod.group())
            .nest(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, peer);
            });
    };
    let message = Batch::default().with(RTM_NEWLINK, NEW, &link(0, true), pair);
    message.acknowledged()
}

/// An ifb that is up, of the pod's group.
pub fn with_ifb(batch: Batch, pod: Pod) -> Batch {
    batch.with(RTM_NEWLINK, NEW, &link(0, true), |ifb| {
        ifb.text(IFLA_IFNAME, &pod.ifb())
            .number(IFLA_GROUP, pod.group())
            .nest(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "ifb");
            });
    })
}

/// The link of that index goes up.
pub fn up(index: u32) -> Batch {
    let message = Batch::default().with(RTM_NEWLINK, 0, &link(index, true), |_| {});
    message.acknowledged()
}

/// The pod's address, and its way out by the gateway.
pub fn address_and_route(pod: Pod, index: u32) -> Batch {
    let address = [&[AF_INET, PREFIX, 0, 0][..], &index.to_ne_bytes()].concat();
    // `struct rtmsg`: to 0.0.0.0/0, in table main, by RTPROT_BOOT, of RTN_UNICAST.
    let route = [AF_INET, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    let messages = Batch::default()
        .with(RTM_NEWADDR, NEW, &address, |attributes| {
            let octets = pod.address().octets();
            attributes.put(IFA_LOCAL, &octets).put(IFA_ADDRESS, &octets);
        })
        .with(RTM_NEWROUTE, NEW, &route, |attributes| {
            let gateway = GATEWAY.octets();
            attributes.put(RTA_GATEWAY, &gateway).number(RTA_OIF, index);
        });
    messages.acknowledged()
}

/// Both of the pod's links, by their group: they go together, and the kernel waits once.
pub fn deletion(pod: Pod) -> Batch {
    let message = Batch::default().with(RTM_DELLINK, 0, &link(0, false), |attributes| {
        attributes.number(IFLA_GROUP, pod.group());
    });
    message.acknowledged()
}
