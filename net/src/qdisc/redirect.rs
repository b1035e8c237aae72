//! Filters on a link's ingress that send what comes in out by another link.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionMirror, TcActionMirrorOption, TcActionOption,
    TcActionType, TcAttribute, TcFilterMatchAllOption, TcFilterU32, TcFilterU32Option, TcHandle,
    TcHeader, TcMessage, TcMirror, TcMirrorActionType, TcOption, TcU32Key, TcU32Selector,
    TcU32SelectorFlags,
};
use nix::errno::Errno;

use super::{INGRESS_HANDLE, ignore_absence, kind, message};
use crate::{Netlink, Result};

/// `ffff:fff2`, the ingress side of a clsact qdisc. An ingress qdisc, which has but one side, takes
/// it for that.
const INGRESS_SIDE: TcHandle = TcHandle {
    major: 0xffff,
    minor: TcHandle::MIN_INGRESS,
};

/// `ETH_P_ALL` of linux/if_ether.h.
const ALL_PROTOCOLS: u16 = 3;

/// The `pref` of the filter.
const PRIORITY: u16 = 1;

impl Netlink {
    /// Sends all that comes in by one link out by another. Equivalent to `tc filter add dev INDEX
    /// parent ffff: protocol all pref 1 u32 match u32 0 0 flowid 1:1 action mirred egress redirect
    /// dev TARGET`, or with `ingress` for the parent where the qdisc is clsact.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_redirect(&self, index: u32, target: u32) -> Result<()> {
        let add = |parent| {
            let message = redirect_message(index, parent, target);
            let message = RouteNetlinkMessage::NewTrafficFilter(message);
            let doing = format_args!("redirect ingress of link {index} to link {target}");
            self.change(message, NLM_F_CREATE | NLM_F_EXCL, doing)
        };
        match add(INGRESS_HANDLE) {
            // A clsact qdisc has no filters of its own, only its two sides have.
            Err(error) if error.is(Errno::EINVAL) => add(INGRESS_SIDE),
            result => result,
        }
    }

    /// Indexes of the links that filters on the link's ingress redirect all to, one for each filter
    /// and link. A filter that takes only some packets is none of them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn redirects(&self, index: u32) -> Result<Vec<u32>> {
        let filters = self.filters(index)?;
        let whole = filters.iter().filter(|filter| takes_all(filter));
        Ok(whole.flat_map(targets).collect())
    }

    /// Indexes of the links that filters on the link's ingress redirect anything to. None where the
    /// link is gone.
    ///
    /// # Errors
    /// The kernel's.
    pub fn redirect_targets(&self, index: u32) -> Result<Vec<u32>> {
        let filters = self.filters(index)?;
        Ok(filters.iter().flat_map(targets).collect())
    }

    /// Whether there are any filters on the link's ingress, whatever they do.
    ///
    /// # Errors
    /// The kernel's.
    pub fn has_ingress_filters(&self, index: u32) -> Result<bool> {
        Ok(!self.filters(index)?.is_empty())
    }

    /// Removes the filters on the link's ingress that redirect to `target`, and no other.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_redirect(&self, index: u32, target: u32) -> Result<()> {
        let filters = self.filters(index)?;
        for deletion in deletions(&filters, target) {
            let message = RouteNetlinkMessage::DelTrafficFilter(deletion);
            let doing = format_args!("delete redirect of link {index} to link {target}");
            match ignore_absence(self.change(message, 0, doing)) {
                // Its qdisc went meanwhile, and the filter with it.
                Err(error) if error.is(Errno::EINVAL) && !self.redirects_to(index, target)? => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn redirects_to(&self, index: u32, target: u32) -> Result<bool> {
        Ok(self.redirect_targets(index)?.contains(&target))
    }

    fn filters(&self, index: u32) -> Result<Vec<TcMessage>> {
        let message = RouteNetlinkMessage::GetTrafficFilter(message(index, INGRESS_SIDE));
        let doing = format_args!("list ingress filters of link {index}");
        self.dump(message, doing, |answer| match answer {
            RouteNetlinkMessage::NewTrafficFilter(filter) => Some(filter),
            _ => None,
        })
    }
}

fn redirect_message(index: u32, parent: TcHandle, target: u32) -> TcMessage {
    let mut message = message(index, parent);
    // The protocol is in network byte order.
    message.header.info = TcHandle {
        major: PRIORITY,
        minor: ALL_PROTOCOLS.to_be(),
    }
    .into();
    let mut selector = TcU32Selector::default();
    selector.flags = TcU32SelectorFlags::Terminal;
    selector.nkeys = 1;
    // A mask of 0: all match.
    selector.keys = vec![TcU32Key::default()];
    let options = [
        TcFilterU32Option::ClassId(TcHandle { major: 1, minor: 1 }),
        TcFilterU32Option::Action(vec![redirect_action(target)]),
        TcFilterU32Option::Selector(selector),
    ];
    message.attributes = vec![
        TcAttribute::Kind(TcFilterU32::KIND.to_owned()),
        TcAttribute::Options(options.map(TcOption::U32).into()),
    ];
    message
}

fn redirect_action(target: u32) -> TcAction {
    let mut mirror = TcMirror::default();
    mirror.generic.action = TcActionType::Stolen;
    mirror.eaction = TcMirrorActionType::EgressRedir;
    mirror.ifindex = target;
    let options = vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(mirror))];
    let mut action = TcAction::default();
    action.attributes = vec![
        TcActionAttribute::Kind(TcActionMirror::KIND.to_owned()),
        TcActionAttribute::Options(options),
    ];
    action
}

/// What deletes the filters that redirect to `target`, and no other. Where their priority has none
/// but them, it goes as a whole: from a qdisc with other u32 filters the kernel would not take the
/// hash table that they were in.
pub(crate) fn deletions(filters: &[TcMessage], target: u32) -> Vec<TcMessage> {
    let is_doomed = |filter: &&TcMessage| targets(filter).contains(&target);
    let deletion = |doomed: &TcMessage| {
        let rest = filters
            .iter()
            .filter(|other| other.header.info == doomed.header.info && !is_doomed(other));
        let mut deletion = TcMessage::default();
        deletion.header = TcHeader {
            parent: INGRESS_SIDE,
            ..doomed.header.clone()
        };
        if is_empty(rest) {
            deletion.header.handle = TcHandle::UNSPEC;
        }
        let kind = kind(doomed).map(|kind| TcAttribute::Kind(kind.to_owned()));
        deletion.attributes.extend(kind);
        deletion
    };
    let mut deletions: Vec<_> = filters.iter().filter(is_doomed).map(deletion).collect();
    deletions.dedup();
    deletions
}

/// Whether these parts of one priority hold no filter: the priority itself has no handle, and u32
/// has one table in it (`TC_U32_NODE` of linux/pkt_cls.h is 0) unless somebody made more.
fn is_empty<'a>(parts: impl Iterator<Item = &'a TcMessage>) -> bool {
    const U32_NODE: u32 = 0xfff;
    let mut tables = 0;
    for part in parts.filter(|part| part.header.handle != TcHandle::UNSPEC) {
        if kind(part) != Some(TcFilterU32::KIND) || u32::from(part.header.handle) & U32_NODE != 0 {
            return false;
        }
        tables += 1;
    }
    tables <= 1
}

/// Whether a filter takes every packet of every protocol.
pub(crate) fn takes_all(filter: &TcMessage) -> bool {
    let protocol = TcHandle::from(filter.header.info).minor;
    let all = |option: &TcOption| match option {
        TcOption::U32(TcFilterU32Option::Selector(selector)) => {
            selector.keys.iter().all(|key| key.mask == 0)
        }
        TcOption::MatchAll(_) => true,
        _ => false,
    };
    protocol == ALL_PROTOCOLS.to_be() && options(filter).any(all)
}

/// The links that a filter redirects to, by however many actions, each once.
fn targets(filter: &TcMessage) -> Vec<u32> {
    let actions = options(filter).filter_map(|option| match option {
        TcOption::U32(TcFilterU32Option::Action(actions))
        | TcOption::MatchAll(TcFilterMatchAllOption::Action(actions)) => Some(actions),
        _ => None,
    });
    let mut targets: Vec<u32> = actions.flatten().filter_map(redirect_target).collect();
    targets.dedup();
    targets
}

fn options(filter: &TcMessage) -> impl Iterator<Item = &TcOption> {
    let options = filter
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            TcAttribute::Options(options) => Some(options),
            _ => None,
        });
    options.flatten()
}

fn redirect_target(action: &TcAction) -> Option<u32> {
    let options = action
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcActionAttribute::Options(options) => Some(options),
            _ => None,
        })?;
    options.iter().find_map(|option| match option {
        TcActionOption::Mirror(TcActionMirrorOption::Parms(mirror))
            if mirror.eaction == TcMirrorActionType::EgressRedir =>
        {
            Some(mirror.ifindex)
        }
        _ => None,
    })
}

// The bytes are those of a little-endian machine.
#[cfg(target_endian = "little")]
#[cfg(test)]
mod tests {
    use netlink_packet_core::{Emitable, Parseable};

    use super::*;

    /// `tc filter add dev veth0 parent ffff: protocol all pref 1 u32 match u32 0 0 flowid 1:1
    /// action mirred egress redirect dev bwp0` sends this where the links have the indexes 3 and 4.
    #[rustfmt::skip]
    const MESSAGE: [u8; 132] = [
        0x00, 0x00, 0x00, 0x00, // tcm_family
        0x03, 0x00, 0x00, 0x00, // tcm_ifindex 3
        0x00, 0x00, 0x00, 0x00, // tcm_handle
        0x00, 0x00, 0xff, 0xff, // tcm_parent ffff:
        0x00, 0x03, 0x01, 0x00, // tcm_info: protocol all (big endian), pref 1
        0x08, 0x00, 0x01, 0x00, 0x75, 0x33, 0x32, 0x00, // TCA_KIND u32
        0x68, 0x00, 0x02, 0x00, // TCA_OPTIONS
        0x08, 0x00, 0x01, 0x00, 0x01, 0x00, 0x01, 0x00, // TCA_U32_CLASSID 1:1
        0x38, 0x00, 0x07, 0x00, // TCA_U32_ACT
        0x34, 0x00, 0x01, 0x00, // the first action
        0x0b, 0x00, 0x01, 0x00, 0x6d, 0x69, 0x72, 0x72, 0x65, 0x64, 0x00, 0x00, // mirred
        0x24, 0x00, 0x02, 0x80, // TCA_ACT_OPTIONS, nested
        0x20, 0x00, 0x02, 0x00, // TCA_MIRRED_PARMS
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // index, capab
        0x04, 0x00, 0x00, 0x00, // TC_ACT_STOLEN
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // refcnt, bindcnt
        0x01, 0x00, 0x00, 0x00, // TCA_EGRESS_REDIR
        0x04, 0x00, 0x00, 0x00, // ifindex 4
        0x24, 0x00, 0x05, 0x00, // TCA_U32_SEL
        0x01, 0x00, 0x01, 0x00, // TC_U32_TERMINAL, offshift, one key
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // offsets, hmask
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // mask, val
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // off, offmask
    ];

    #[test]
    fn packed_as_tc_does() {
        let message = redirect_message(3, INGRESS_HANDLE, 4);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        assert_eq!(bytes, MESSAGE);
    }

    #[test]
    fn the_target_is_read_back() {
        let message = TcMessage::parse(&MESSAGE).expect("parse");
        assert_eq!(targets(&message), [4]);
        assert!(takes_all(&message));
    }

    #[test]
    fn what_takes_some_packets_only_is_told_apart() {
        let mut ipv6 = redirect_message(3, INGRESS_SIDE, 4);
        ipv6.header.info = TcHandle {
            major: PRIORITY,
            minor: 0x86dd_u16.to_be(),
        }
        .into();
        assert!(!takes_all(&ipv6));
        let mut some = redirect_message(3, INGRESS_SIDE, 4);
        if let Some(TcAttribute::Options(options)) = some.attributes.last_mut()
            && let Some(TcOption::U32(TcFilterU32Option::Selector(selector))) = options.last_mut()
        {
            selector.keys[0].mask = 0xffff_ff00;
        }
        assert!(!takes_all(&some));
    }

    /// A part of priority 1, as the kernel lists it.
    fn part(handle: u32, target: Option<u32>) -> TcMessage {
        let mut part = redirect_message(3, INGRESS_HANDLE, target.unwrap_or_default());
        part.header.handle = handle.into();
        if target.is_none() {
            part.attributes.truncate(1);
        }
        part
    }

    #[test]
    fn a_priority_goes_with_its_last_filter() {
        let handles = |filters: &[TcMessage]| -> Vec<u32> {
            let deletions = deletions(filters, 4);
            deletions
                .iter()
                .map(|one| one.header.handle.into())
                .collect()
        };
        let (priority, table) = (part(0, None), part(0x8010_0000, None));
        let (ours, again) = (part(0x8010_0800, Some(4)), part(0x8010_0801, Some(4)));
        let other = part(0x8010_0802, Some(5));
        let mut elsewhere = part(0x8000_0800, Some(5));
        elsewhere.header.info = TcHandle { major: 5, minor: 8 }.into();
        let alone = [priority, table, ours, elsewhere];
        assert_eq!(handles(&alone), [0]);
        let with = |more: &TcMessage| [&alone[..], std::slice::from_ref(more)].concat();
        assert_eq!(handles(&with(&again)), [0]);
        assert_eq!(handles(&with(&other)), [0x8010_0800]);
        assert_eq!(handles(&with(&part(0x0010_0000, None))), [0x8010_0800]);
        assert_eq!(handles(&[other]), [0; 0]);
    }

    #[test]
    fn two_actions_to_one_link_are_one_target_and_a_copy_is_none() {
        let mut mirror = redirect_action(6);
        if let Some(TcActionAttribute::Options(options)) = mirror.attributes.last_mut() {
            let mut copy = TcMirror::default();
            copy.eaction = TcMirrorActionType::EgressMirror;
            copy.ifindex = 6;
            *options = vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(copy))];
        }
        let actions = vec![
            redirect_action(4),
            redirect_action(4),
            mirror,
            redirect_action(5),
        ];
        let mut message = message(3, INGRESS_SIDE);
        let matchall = TcOption::MatchAll(TcFilterMatchAllOption::Action(actions));
        message.attributes = vec![TcAttribute::Options(vec![matchall])];
        assert_eq!(targets(&message), [4, 5]);
    }
}
