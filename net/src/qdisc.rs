//! Queueing disciplines: tbf and ingress.

use std::path::Path;
use std::thread;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use nix::errno::Errno;

use crate::{Error, Netlink, Result};

pub(crate) mod redirect;
mod tbf;

pub use tbf::Tbf;

/// `ffff:`, the only handle an ingress or clsact qdisc can have.
const INGRESS_HANDLE: TcHandle = TcHandle {
    major: 0xffff,
    minor: 0,
};

/// A qdisc of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// `tbf`, `ingress`, `clsact`, `noqueue`, …
    pub kind: String,
    /// Major and minor as `tc` prints `1:` = 0x10000.
    pub handle: u32,
    /// `TC_H_ROOT` 0xffffffff or `TC_H_INGRESS` 0xfffffff1.
    pub parent: u32,
    /// Its parameters, where it is a tbf without a peak rate.
    pub tbf: Option<Tbf>,
}

/// Scheduler ticks per microsecond (/proc/net/psched).
///
/// # Errors
/// The file cannot be read or understood.
pub fn ticks_per_microsecond() -> Result<f64> {
    let path = Path::new("/proc/net/psched");
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
        doing: format!("read {}", path.display()),
        source,
    })?;
    let understood = parse_psched(&text);
    understood
        .ok_or_else(|| Error::Protocol(format!("{}: cannot understand {text:?}", path.display())))
}

/// The file holds four hexadecimal numbers: nanoseconds per microsecond, nanoseconds per tick,
/// clock ticks per second, and what is not needed here (`psched_show` of the kernel's
/// net/sched/sch_api.c).
fn parse_psched(text: &str) -> Option<f64> {
    let mut numbers = text
        .split_whitespace()
        .map(|word| u32::from_str_radix(word, 16));
    let mut next = || numbers.next()?.ok().map(f64::from);
    let (per_microsecond, per_tick, clock) = (next()?, next()?, next()?);
    // As iproute2 does: such a clock has a tick per nanosecond, whatever the first number says.
    let per_microsecond = if clock == 1e9 {
        per_tick
    } else {
        per_microsecond
    };
    let ticks = per_microsecond / per_tick * (clock / 1e6);
    (ticks.is_finite() && ticks > 0.0).then_some(ticks)
}

impl Netlink {
    /// The link's root qdisc and the one on its ingress, where there are; none where the link is
    /// gone. As `tc qdisc show dev INDEX` shows them, but without the leaves of a classful one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdiscs(&self, index: u32) -> Result<Vec<Qdisc>> {
        let mut qdiscs = Vec::new();
        // Two single gets: a list of qdiscs is always one of all links'.
        for parent in [TcHandle::ROOT, TcHandle::INGRESS] {
            let message = RouteNetlinkMessage::GetQueueDiscipline(message(index, parent));
            match self.get(message, format_args!("get qdiscs of link {index}")) {
                Err(error) if error.is(Errno::ENOENT) || error.is(Errno::ENODEV) => {}
                answer => qdiscs.extend(answer?.as_ref().and_then(qdisc)),
            }
        }
        Ok(qdiscs)
    }

    /// Equivalent to `tc qdisc add dev INDEX root handle 1: tbf rate … burst … limit …`; with
    /// `replace`, as `tc qdisc replace`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where a root qdisc was made before and `replace` is false.
    pub fn add_tbf(&self, index: u32, tbf: Tbf, replace: bool) -> Result<()> {
        let mut message = message(index, TcHandle::ROOT);
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes = tbf.attributes();
        let flags = if replace { NLM_F_REPLACE } else { NLM_F_EXCL };
        let message = RouteNetlinkMessage::NewQueueDiscipline(message);
        let doing = format_args!("add tbf to link {index}");
        self.change(message, NLM_F_CREATE | flags, doing)
    }

    /// Equivalent to `tc qdisc add dev INDEX handle ffff: ingress`; an ingress or clsact qdisc
    /// that is there already serves as well.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ensure_ingress(&self, index: u32) -> Result<()> {
        let mut message = message(index, TcHandle::INGRESS);
        message.header.handle = INGRESS_HANDLE;
        message
            .attributes
            .push(TcAttribute::Kind("ingress".to_owned()));
        let message = RouteNetlinkMessage::NewQueueDiscipline(message);
        let doing = format_args!("add ingress qdisc to link {index}");
        match self.change(message, NLM_F_CREATE | NLM_F_EXCL, doing) {
            Err(error) if error.is(Errno::EEXIST) => Ok(()),
            result => result,
        }
    }

    /// Equivalent to `tc qdisc del dev INDEX root`; that there is none is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_root_qdisc(&self, index: u32) -> Result<()> {
        let message = message(index, TcHandle::ROOT);
        self.delete_qdisc(message, format_args!("delete root qdisc of link {index}"))
    }

    /// Equivalent to `tc qdisc del dev INDEX ingress`; that there is none is no error. A clsact
    /// qdisc is someone else's, and stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_ingress(&self, index: u32) -> Result<()> {
        let mut message = message(index, TcHandle::INGRESS);
        message
            .attributes
            .push(TcAttribute::Kind("ingress".to_owned()));
        let doing = format_args!("delete ingress qdisc of link {index}");
        match while_busy(|| self.delete_qdisc(message.clone(), doing)) {
            // The one that is there is of another kind.
            Err(error) if error.is(Errno::EINVAL) => Ok(()),
            result => result,
        }
    }

    fn delete_qdisc(&self, message: TcMessage, doing: std::fmt::Arguments) -> Result<()> {
        let message = RouteNetlinkMessage::DelQueueDiscipline(message);
        ignore_absence(self.change(message, 0, doing))
    }
}

/// Tries again, for a fifth of a second at most, while another's request for a filter of the qdisc
/// is under way: the kernel answers EBUSY then, and has no event for its end (`qdisc_graft` of
/// net/sched/sch_api.c).
fn while_busy(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..40 {
        match attempt() {
            Err(error) if error.is(Errno::EBUSY) => thread::sleep(Duration::from_millis(5)),
            result => return result,
        }
    }
    attempt()
}

/// Turns "there is no such object, or not even its link" into success.
fn ignore_absence(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is(Errno::ENOENT) || error.is(Errno::ENODEV) => Ok(()),
        result => result,
    }
}

/// A message about a link's qdisc or filter.
fn message(index: u32, parent: TcHandle) -> TcMessage {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = parent;
    message
}

pub(crate) fn qdisc(answer: &RouteNetlinkMessage) -> Option<Qdisc> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = answer else {
        return None;
    };
    let kind = kind(message)?;
    Some(Qdisc {
        kind: kind.to_owned(),
        handle: message.header.handle.into(),
        parent: message.header.parent.into(),
        tbf: if kind == tbf::KIND {
            Tbf::read(&message.attributes)
        } else {
            None
        },
    })
}

fn kind(message: &TcMessage) -> Option<&str> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind.as_str()),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> Result<()> {
        Err(Error::Kernel {
            doing: "delete".to_owned(),
            errno: errno as i32,
            text: String::new(),
        })
    }

    #[test]
    fn what_is_busy_is_tried_again_and_nothing_else() {
        let attempts = |answer: &dyn Fn(u32) -> Result<()>| {
            let mut count = 0;
            let result = while_busy(|| {
                count += 1;
                answer(count)
            });
            (count, result.err().and_then(|error| error.errno()))
        };
        let free_at_the_third = |count: u32| match count {
            3 => Ok(()),
            _ => refused(Errno::EBUSY),
        };
        assert_eq!(attempts(&free_at_the_third), (3, None));
        let other = |_| refused(Errno::EPERM);
        assert_eq!(attempts(&other), (1, Some(Errno::EPERM as i32)));
        let (count, errno) = attempts(&|_| refused(Errno::EBUSY));
        assert_eq!((count, errno), (41, Some(Errno::EBUSY as i32)));
    }

    #[test]
    fn ticks_as_tc_reads_them() {
        assert_eq!(
            parse_psched("000003e8 00000040 000f4240 3b9aca00\n"),
            Some(15.625)
        );
        assert_eq!(
            parse_psched("000003e8 00000400 3b9aca00 00000064\n"),
            Some(1000.0)
        );
    }

    #[test]
    fn anything_else_is_not_understood() {
        for text in [
            "",
            "000003e8 00000040",
            "x y z",
            "000003e8 00000000 000f4240 0",
            "0 40 f4240 0",
        ] {
            assert_eq!(parse_psched(text), None, "{text}");
        }
    }
}
