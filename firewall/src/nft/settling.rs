//! What is removed, and may still be in use by packets on their way.

use std::cell::RefCell;
use std::os::fd::{BorrowedFd, OwnedFd};

thread_local! {
    static KEPT: RefCell<Option<Vec<OwnedFd>>> = const { RefCell::new(None) };
}

/// To drop this is to wait until no packet is on its way through what was removed: where that is not so
/// yet, the kernel waits when any socket to it is closed (`nft_rcv_nl_event` of
/// net/netfilter/nf_tables_api.c). While it waits it holds a lock that the removal of a link needs
/// (`nf_tables_netdev_event` of net/netfilter/nft_chain_filter.c). So this is to be kept until
/// something else has waited for the same packets, as the removal of a link does.
#[derive(Debug)]
pub struct Settling {
    _sockets: Vec<OwnedFd>,
}

/// Does `work`, and keeps open what sockets it has used on this thread.
pub fn keep<T>(work: impl FnOnce() -> T) -> (T, Settling) {
    let outer = KEPT.replace(Some(Vec::new()));
    let done = work();
    let sockets = KEPT.replace(outer);
    let settling = Settling {
        _sockets: sockets.unwrap_or_default(),
    };
    (done, settling)
}

/// A socket is about to be closed.
pub(super) fn closing(socket: BorrowedFd) {
    // One that cannot be kept is waited for.
    let _ = KEPT.try_with(|kept| {
        if let Some(kept) = kept.borrow_mut().as_mut() {
            kept.extend(socket.try_clone_to_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::wire::Socket;
    use super::*;

    fn open() -> Socket {
        Socket::open().unwrap()
    }

    fn kept(work: impl FnOnce()) -> usize {
        keep(work).1._sockets.len()
    }

    #[test]
    fn what_is_closed_is_kept_open() {
        let before = open();
        assert_eq!(kept(|| drop([open(), open()])), 2);
        assert_eq!(kept(|| drop(before)), 1);
        drop(open());
        assert_eq!(kept(|| ()), 0);
    }

    #[test]
    fn only_what_the_thread_itself_does_in_the_meantime_counts() {
        assert_eq!(kept(|| assert_eq!(kept(|| drop(open())), 1)), 0);
        let elsewhere = || std::thread::spawn(|| drop(open())).join().unwrap();
        assert_eq!(kept(elsewhere), 0);
    }
}
