//! GC: removes what attachments that are no more have left. It looks at no value of the
//! configuration, and goes on after an error.

use std::collections::BTreeSet;

use attached::{RulesContext, marks, owner};
use cni::{Attachment, Command, Context, Error, Request};
use firewall::{Owner, masquerade};
use net::{Link, Netlink};

use crate::hand_on;
use crate::identity::Identity;
use crate::macspoof;

/// Unmakes what is of the network and of no valid attachment. Addresses are released last, when
/// nothing uses them any more, and also where something else could not be removed; but not as long as
/// rules are there that another GC may remove, as DEL does it.
///
/// A veth that a reference plugin made says nothing of its network and stays: it goes with its pod.
pub fn gc(request: &Request) -> Result<(), Error> {
    let valid = request.valid_attachments()?;
    let owners: Vec<Owner> = valid.iter().map(owner).collect();
    let network = &request.config.name;
    let rules = remove_rules(request, &owners);
    let is_held = rules.as_ref().is_err_and(firewall::Error::may_pass);
    let so = if is_held {
        " may still be there, and addresses stay reserved"
    } else {
        ""
    };
    let steps = [
        rules.rules_context(format!("masquerade rules of network {network}{so}")),
        macspoof::gc(request, &owners),
        remove_links(request, &valid),
        if is_held {
            Ok(())
        } else {
            hand_on(Command::Gc, request)
        },
    ];
    Error::all(steps.into_iter().filter_map(Result::err).collect())
}

fn remove_rules(request: &Request, valid: &[Owner]) -> firewall::Result<()> {
    request.step("masquerade");
    masquerade::gc(&request.config.name, valid)
}

fn remove_links(request: &Request, valid: &BTreeSet<Attachment>) -> Result<(), Error> {
    request.step("links");
    let network = &request.config.name;
    let failed = format!("links of network {network} may still be there");
    let node = Netlink::current().context(&failed)?;
    let links = node.links().context(&failed)?;
    let valid: Vec<Identity> = valid.iter().map(Identity::of).collect();
    let errors = garbage(&links, network, &valid).filter_map(|link| {
        let deleted = node.delete_link(link.index);
        let still_there = format!("{:?} ({}) is still there", link.name, link.alias);
        deleted.context(still_there).err()
    });
    Error::all(errors.collect())
}

/// The host's ends of veth pairs that are of the network and none of the valid ones.
fn garbage<'l>(
    links: &'l [Link],
    network: &'l str,
    valid: &'l [Identity],
) -> impl Iterator<Item = &'l Link> {
    let is_valid = |link: &Link| {
        let is = |identity: &Identity| identity.name == link.name || identity.owns(link);
        valid.iter().any(is)
    };
    links.iter().filter(move |link| {
        link.kind == "veth" && marks::is_of_network(link, network) && !is_valid(link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    fn identity(network: &str, id: &str, ifname: &str) -> Identity {
        Identity::of(&Attachment::new(network, id, ifname))
    }

    /// The host's end of an attachment, as ADD makes it.
    fn port(identity: &Identity) -> Link {
        Link {
            name: identity.name.clone(),
            mac: Some(identity.marks.mac),
            group: identity.marks.group,
            alias: identity.marks.alias.clone(),
            ..link("veth")
        }
    }

    #[test]
    fn what_is_of_no_valid_attachment_is_garbage() {
        let (a, b) = (identity("n", "a", "eth0"), identity("n", "b", "eth0"));
        let without_alias = Link {
            alias: String::new(),
            ..port(&b)
        };
        let renamed = Link {
            name: "x0".into(),
            group: 0,
            ..port(&b)
        };
        let links = [port(&a), port(&b), without_alias, renamed];
        let of_b: Vec<_> = links.iter().skip(1).collect();
        assert_eq!(garbage(&links, "n", &[]).count(), 4);
        let both = [a, b];
        let (only_a, _) = both.split_at(1);
        assert_eq!(garbage(&links, "n", only_a).collect::<Vec<_>>(), of_b);
        assert_eq!(garbage(&links, "n", &both).count(), 0);
    }

    #[test]
    fn one_sign_of_a_valid_attachment_is_enough() {
        let a = identity("n", "a", "eth0");
        let other = identity("n", "b", "eth0");
        let named = Link {
            name: a.name.clone(),
            group: 0,
            ..port(&other)
        };
        let with_mac = Link {
            mac: Some(a.marks.mac),
            ..port(&other)
        };
        let with_alias = Link {
            alias: a.marks.alias.clone(),
            ..port(&other)
        };
        let links = [named, with_mac, with_alias];
        assert_eq!(garbage(&links, "n", &[a]).count(), 0);
    }

    #[test]
    fn what_is_not_of_the_network_is_let_alone() {
        let bridge = Link {
            kind: "bridge".into(),
            ..port(&identity("n", "b", "eth0"))
        };
        let of_reference = link("veth");
        let links = [
            bridge,
            of_reference,
            port(&identity("n1", "b", "eth0")),
            port(&identity("m", "b", "eth0")),
        ];
        assert_eq!(garbage(&links, "n", &[]).count(), 0);
    }
}
