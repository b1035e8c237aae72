use std::cell::Cell;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_netfilter::nftables::{TableAttribute, TableMessage};

use super::*;

thread_local! {
    static RECEIVED: Cell<usize> = const { Cell::new(0) };
}

/// Adds to the messages that this thread has received.
pub fn count(messages: usize) {
    RECEIVED.with(|received| received.set(received.get().saturating_add(messages)));
}

/// How many messages the kernel sends to this thread in the meantime.
pub fn received(meanwhile: impl FnOnce()) -> usize {
    RECEIVED.with(|received| received.set(0));
    meanwhile();
    RECEIVED.with(Cell::get)
}

fn table(name: &str) -> Message {
    let attributes = vec![TableAttribute::Name(name.to_owned())];
    Message {
        family: NetfilterProtoFamily::IPv6,
        flags: NLM_F_CREATE,
        body: NfTablesMessage::NewTable(TableMessage { attributes }),
    }
}

// As `nft add table ip6 a; add table ip6 b` sends them, but for the flags of acknowledgement.
#[cfg(target_endian = "little")]
#[test]
fn a_batch_is_one_datagram_of_which_the_last_change_is_acknowledged() {
    let Ok(mut socket) = Socket::open() else {
        return lab::skip("no netlink socket of netfilter can be had");
    };
    let (bytes, begin, last) = socket.encode_batch(&[table("a"), table("b")]);
    assert_eq!((begin, last), (1, 3));
    let expected = [
        20, 0, 0, 0, 16, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, // NFNL_MSG_BATCH_BEGIN
        0, 0, 0, 10, // nfgenmsg: NFNL_SUBSYS_NFTABLES
        28, 0, 0, 0, 0, 10, 1, 4, 2, 0, 0, 0, 0, 0, 0, 0, // NFT_MSG_NEWTABLE, NLM_F_CREATE
        10, 0, 0, 0, 6, 0, 1, 0, b'a', 0, 0, 0, // NFPROTO_IPV6, NFTA_TABLE_NAME
        28, 0, 0, 0, 0, 10, 5, 4, 3, 0, 0, 0, 0, 0, 0, 0, // NLM_F_ACK beside it
        10, 0, 0, 0, 6, 0, 1, 0, b'b', 0, 0, 0, //
        20, 0, 0, 0, 17, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, // NFNL_MSG_BATCH_END
        0, 0, 0, 10,
    ];
    assert_eq!(bytes, expected);
    let (_, begin, _) = socket.encode_batch(&[table("a")]);
    assert_eq!(begin, 5);
    // What is only rehearsed is the same, but for the end.
    let Ok(mut socket) = Socket::open() else {
        return;
    };
    let (bytes, begin, last) = socket.encode_begun(&[table("a"), table("b")]);
    assert_eq!((begin, last), (1, 3));
    assert_eq!(bytes, expected[..expected.len() - 20]);
}
