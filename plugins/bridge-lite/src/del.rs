//! DEL: cleans by the attachment alone, whatever else is missing or wrong, and goes on after an
//! error.

use std::panic::resume_unwind;
use std::thread;

use attached::marks::is_unmarked;
use attached::pair::{self, Pair};
use attached::{RulesContext, owner};
use cni::{Attachment, Command, Context, Error, Request};
use firewall::{Settling, masquerade};
use ipnet::IpNet;
use net::{Link, Netlink};

use crate::config::DelConfig;
use crate::identity::Identity;
use crate::ipam;
use crate::macspoof;

/// Unmakes the attachment. The address is released last, when nothing uses it any more, and also
/// where something else could not be removed; but not as long as rules of it are there that another
/// DEL may remove: they would masquerade the address's next pod.
pub fn del(request: &Request) -> Result<(), Error> {
    let config = DelConfig::read(request);
    let filter = macspoof::del(request, config.mac_spoof_check);
    request.step("links");
    let rules = Rules::of(request, &config);
    let (rules, links) = at_once(move || rules.remove(), || remove_links(request, &config));
    let is_held = rules.as_ref().is_err_and(firewall::Error::may_pass);
    // Until the end: the links' removal has waited for the same packets.
    let (rules, _settling) = match rules {
        Ok(settling) => (Ok(()), Some(settling)),
        Err(error) => (Err(error), None),
    };
    let so = if is_held {
        ", and its address stays reserved"
    } else {
        ""
    };
    let left = format!(
        "masquerade rules of {} may still be there{so}",
        request.attachment()
    );
    let steps = [
        rules.rules_context(left),
        filter,
        links,
        if is_held { Ok(()) } else { release(request) },
    ];
    Error::all(steps.into_iter().filter_map(Result::err).collect())
}

/// What the removal of masquerade rules needs to know.
struct Rules {
    attachment: Attachment,
    /// By which what a reference plugin made is recognised.
    addresses: Vec<IpNet>,
    are_expected: bool,
}

impl Rules {
    fn of(request: &Request, config: &DelConfig) -> Rules {
        let attachment = request.attachment();
        let previous = request.config.prev_result_tolerant().unwrap_or_default();
        let told = previous.ips_of(&attachment.ifname);
        Rules {
            addresses: told.map(|ip| ip.address).collect(),
            are_expected: config.ip_masq,
            attachment,
        }
    }

    fn remove(&self) -> firewall::Result<Settling> {
        let owner = owner(&self.attachment);
        masquerade::delete(owner, &self.addresses, self.are_expected)
    }
}

/// Does both at the same time: either waits until no packet can be on its way through what it has
/// removed, and that is the same time for both.
fn at_once<A: Send, B>(aside: impl Fn() -> A + Send + Sync, here: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let begun = thread::Builder::new().spawn_scoped(scope, &aside);
        let here = here();
        let aside = match begun {
            Ok(begun) => begun.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // There may be no more threads.
            Err(_) => aside(),
        };
        (aside, here)
    })
}

fn release(request: &Request) -> Result<(), Error> {
    request.step("ipam");
    match ipam(request) {
        Ok(Some(ipam)) => ipam.call(Command::Del, request),
        Ok(None) => Ok(()),
        Err(mut error) => {
            let attachment = request.attachment();
            error.msg = format!("{}; the address of {attachment} is not released", error.msg);
            Err(error)
        }
    }
}

/// Deletes the veth pair by either end: the other goes with it.
fn remove_links(request: &Request, config: &DelConfig) -> Result<(), Error> {
    let attachment = request.attachment();
    let failed = format!("links of {attachment} may still be there");
    let node = Netlink::current().context(&failed)?;
    let identity = Identity::of(&attachment);
    let derived = node.link(&identity.name).context(&failed)?;
    if let Some(port) = derived.filter(|link| identity.owns(link)) {
        return node.delete_link(port.index).map(drop).context(&failed);
    }
    // What is left is a pair that was renamed, or that a reference plugin made.
    let previous = request.config.prev_result_tolerant();
    let ours = |port: &Link| identity.owns(port) || is_unmarked(port);
    if let Some(port) = pair::told(&node, previous.as_ref(), ours).context(&failed)? {
        node.delete_link(port.index).map(drop).context(&failed)?;
    }
    let Some(pair) = Pair::if_there(request, &node).context(&failed)? else {
        return Ok(());
    };
    let bridge = node.link(config.bridge()).context(&failed)?;
    if identity.owns(&pair.outer) || unmarked_port(&pair.outer, bridge.as_ref()) {
        // By the pod's end: no other pod can have that one, whatever the indexes say.
        let deleted = pair.pod.delete_link(pair.inner.index);
        deleted.map(drop).context(&failed)?;
    }
    Ok(())
}

/// Whether a veth is one that a reference plugin made for this bridge: its port, or nobody's where
/// the bridge is gone, and without the marks of another attachment.
fn unmarked_port(port: &Link, bridge: Option<&Link>) -> bool {
    port.master == bridge.map(|bridge| bridge.index) && is_unmarked(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    #[test]
    fn only_an_unmarked_port_of_the_bridge_is_a_reference_plugin_s() {
        let port = Link {
            master: Some(3),
            ..link("veth")
        };
        let bridge = Link {
            index: 3,
            ..link("bridge")
        };
        assert!(unmarked_port(&port, Some(&bridge)));
        assert!(!unmarked_port(&port, None));
        let of_none = Link {
            master: None,
            ..port.clone()
        };
        assert!(unmarked_port(&of_none, None));
        assert!(!unmarked_port(&of_none, Some(&bridge)));
        let other_bridge = Link {
            index: 4,
            ..bridge.clone()
        };
        assert!(!unmarked_port(&port, Some(&other_bridge)));
        let another_s = Link {
            alias: "n/other/eth0".into(),
            ..port
        };
        assert!(!unmarked_port(&another_s, Some(&bridge)));
    }
}
