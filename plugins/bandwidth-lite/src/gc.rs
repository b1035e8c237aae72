//! GC: removes what attachments that are no more have left. It looks at no value of the
//! configuration, and goes on after an error.

use std::collections::{BTreeMap, BTreeSet};

use attached::marks;
use cni::{Attachment, Context, Error, Request};
use net::{Link, Netlink};

use crate::identity::{self, Identity};
use crate::{del, want};

/// The links that each link's ingress is redirected to, by their indexes.
type Redirects = BTreeMap<u32, Vec<u32>>;

/// Removes the ifbs of the network that are of no valid attachment. An ifb that a reference plugin
/// made says nothing of its network: one that nothing is sent through any more is removed.
pub fn gc(request: &Request) -> Result<(), Error> {
    let valid = request.valid_attachments()?;
    let network = &request.config.name;
    let failed = format!("ifbs of network {network} may still be there");
    request.step("look");
    let node = Netlink::current().context(&failed)?;
    let links = node.links().context(&failed)?;
    let Ifbs { garbage, unnamed } = sort(&links, network, &valid);
    if garbage.is_empty() && unnamed.is_empty() {
        return Ok(());
    }
    let redirects = redirects(&node, &links).context(&failed)?;
    request.step("remove");
    let mut errors = Vec::new();
    for ifb in garbage {
        errors.extend(remove(&node, ifb, &links, &redirects));
    }
    for ifb in unnamed.into_iter().filter(|ifb| is_unused(ifb, &redirects)) {
        match was_used(&node, ifb) {
            Ok(true) => errors.extend(remove(&node, ifb, &links, &redirects)),
            Ok(false) => {}
            Err(error) => errors.extend(Err::<(), _>(error).context(&failed).err()),
        }
    }
    Error::all(errors)
}

/// Ifbs that may have to go.
#[derive(Debug, PartialEq, Eq)]
struct Ifbs<'l> {
    /// Of the network, and of none of its valid attachments.
    garbage: Vec<&'l Link>,
    /// A reference plugin's, of whatever network, and of none of the valid attachments.
    unnamed: Vec<&'l Link>,
}

fn sort<'l>(links: &'l [Link], network: &str, valid: &BTreeSet<Attachment>) -> Ifbs<'l> {
    let identities: Vec<Identity> = valid.iter().map(Identity::of).collect();
    let is_valid = |ifb: &&Link| {
        let is = |it: &Identity| it.name == ifb.name || it.marks.are_on(ifb);
        identities.iter().any(is)
    };
    // A reference plugin has one for all interfaces of a container.
    let names: BTreeSet<String> = valid.iter().map(identity::reference_name).collect();
    let ifbs = || links.iter().filter(|link| link.kind == "ifb");
    Ifbs {
        garbage: ifbs()
            .filter(|ifb| marks::is_of_network(ifb, network) && !is_valid(ifb))
            .collect(),
        unnamed: ifbs()
            .filter(|ifb| identity::is_reference_ifb(ifb) && !names.contains(&ifb.name))
            .collect(),
    }
}

fn redirects(node: &Netlink, links: &[Link]) -> net::Result<Redirects> {
    let of = |link: &Link| Ok((link.index, node.redirect_targets(link.index)?));
    links.iter().map(of).collect()
}

fn is_unused(ifb: &Link, redirects: &Redirects) -> bool {
    !redirects
        .values()
        .any(|targets| targets.contains(&ifb.index))
}

/// Whether an ADD has come to its end with it: the bucket is what the reference plugin makes last.
/// Another network's ADD, which may be under way, has not.
fn was_used(node: &Netlink, ifb: &Link) -> net::Result<bool> {
    let qdiscs = node.qdiscs(ifb.index)?;
    Ok(want::root(&qdiscs).is_some_and(want::is_our_tbf))
}

/// Removes an ifb, and first what is redirected to it: that would be lost. What could not be
/// removed.
fn remove(node: &Netlink, ifb: &Link, links: &[Link], redirects: &Redirects) -> Vec<Error> {
    let leads_here = |link: &&Link| {
        let targets = redirects.get(&link.index);
        targets.is_some_and(|targets| targets.contains(&ifb.index))
    };
    let mut errors = Vec::new();
    for host in links.iter().filter(leads_here) {
        let unshaped = del::unshape(node, host, std::slice::from_ref(ifb));
        let still_there = format!("qdiscs of {:?} may still be there", host.name);
        errors.extend(unshaped.context(still_there).err());
    }
    let deleted = node.delete_link(ifb.index);
    let still_there = format!("ifb {:?} ({}) is still there", ifb.name, ifb.alias);
    errors.extend(deleted.context(still_there).err());
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ifb(attachment: &Attachment) -> Link {
        let Identity { name, marks } = Identity::of(attachment);
        Link {
            name,
            mac: Some(marks.mac),
            group: marks.group,
            alias: marks.alias,
            kind: "ifb".to_string(),
            ..Link::default()
        }
    }

    fn reference_ifb(attachment: &Attachment) -> Link {
        Link {
            name: identity::reference_name(attachment),
            kind: "ifb".to_string(),
            ..Link::default()
        }
    }

    fn names(links: &[&Link]) -> Vec<String> {
        links.iter().map(|link| link.name.clone()).collect()
    }

    #[test]
    fn marked_ifbs_are_told_by_their_network() {
        let of = |network: &str, id: &str, ifname: &str| Attachment::new(network, id, ifname);
        let (a, b, c) = (
            of("n", "a", "eth0"),
            of("n", "b", "net1"),
            of("n1", "a", "eth0"),
        );
        let links = [ifb(&a), ifb(&b), ifb(&c)];
        let sorted = |valid: &[&Attachment]| {
            let valid = valid.iter().map(|one| (*one).clone()).collect();
            let ifbs = sort(&links, "n", &valid);
            assert_eq!(names(&ifbs.unnamed), [""; 0]);
            names(&ifbs.garbage)
        };
        assert_eq!(sorted(&[&a]), names(&[&links[1]]));
        assert_eq!(sorted(&[]), names(&[&links[0], &links[1]]));
        assert_eq!(sorted(&[&a, &b]), [""; 0]);
        // Another interface of the container, whose name would be the same by the reference plugin.
        assert_eq!(sorted(&[&of("n", "a", "net1"), &b]), names(&[&links[0]]));
    }

    #[test]
    fn a_valid_ifb_stays_whatever_has_become_of_its_marks() {
        let a = Attachment::new("n", "a", "eth0");
        let changed = Link {
            mac: None,
            alias: "n/b/eth0".to_string(),
            ..ifb(&a)
        };
        let renamed = Link {
            name: "x0".to_string(),
            ..ifb(&a)
        };
        let links = [changed, renamed];
        assert_eq!(names(&sort(&links, "n", &[a].into()).garbage), [""; 0]);
        assert_eq!(sort(&links, "n", &BTreeSet::new()).garbage.len(), 2);
    }

    #[test]
    fn a_reference_ifb_stays_with_every_interface_of_its_container() {
        let links = ["a", "b"].map(|id| reference_ifb(&Attachment::new("n", id, "eth0")));
        let valid = Attachment::new("n", "a", "net1");
        let ifbs = sort(&links, "n", &[valid].into());
        assert_eq!(names(&ifbs.garbage), [""; 0]);
        assert_eq!(names(&ifbs.unnamed), names(&[&links[1]]));
    }

    #[test]
    fn what_any_link_redirects_to_is_used() {
        let ifb = Link {
            index: 7,
            ..Link::default()
        };
        let redirects: Redirects = [(1, vec![]), (2, vec![5, 7])].into();
        assert!(!is_unused(&ifb, &redirects));
        assert!(is_unused(&ifb, &[(2, vec![5])].into()));
    }
}
