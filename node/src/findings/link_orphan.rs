//! A pod's link without an address that is reserved for it.

use cni::Attachment;
use firewall::view::quote;
use net::Link;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::node::Netns;
use crate::whose::named_by;

pub const KIND: Kind = Kind {
    id: "link-orphan",
    means: "A pod's link is there, and no address is reserved for it: where the pod lives, its address may \
            be given to a second one; where it does not, the link is what a failed DEL has left.",
    mend: "reserve the address again; or remove what is left: `podnet del`",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let links = case.node.links.iter().filter(|link| link.kind == "veth");
    let named = links.filter_map(|link| Some((link, named_by(link)?)));
    let orphans = named.filter(|(_, owner)| is_orphan(case, owner));
    orphans
        .map(|(link, owner)| finding(case, link, &owner))
        .collect()
}

/// Whether an attachment's network is known to keep reservations, and has none for it.
pub fn is_orphan(case: &Case, owner: &Attachment) -> bool {
    let mut networks = case.node.networks.iter();
    let network = networks.find(|network| network.name == owner.network);
    network.and_then(|network| network.has_reserved(owner)) == Some(false)
}

fn finding(case: &Case, link: &Link, owner: &Attachment) -> Finding {
    let addresses = addresses_of(case, owner);
    let networks = case.node.networks.iter();
    let mut stores = networks.filter(|network| network.name == owner.network);
    let store = stores.find_map(|network| network.store.as_ref());
    let store = store
        .map(|store| store.display().to_string())
        .unwrap_or_default();
    let evidence = format!("link {} is {owner}'s; {store} has no file of it", link.name);
    if addresses.is_empty() {
        let breaks = format!("nothing yet: {owner} is what a DEL has left");
        let finding = Finding::warning(&KIND, breaks).by(evidence);
        return finding.mended_by(case.node.removal_of(owner));
    }
    let list = addresses.join(", ");
    let breaks = format!("{list} of the pod {owner} may be given to a second pod");
    let finding = Finding::error(&KIND, breaks)
        .by(evidence)
        .by(format!("the pod has {list}"));
    let (id, ifname) = (quote(&owner.container_id), quote(&owner.ifname));
    addresses.iter().fold(finding, |finding, address| {
        let file = format!("{store}/{address}");
        finding.mended_by(format!(
            "printf '%s\\r\\n%s' {id} {ifname} > {}",
            quote(&file)
        ))
    })
}

/// The pod's addresses that are of its network, where it lives.
fn addresses_of(case: &Case, owner: &Attachment) -> Vec<String> {
    let Some(attached) = case.node.attached(owner) else {
        return Vec::new();
    };
    let Netns::Open {
        link: Some(_),
        addresses,
    } = &attached.netns
    else {
        return Vec::new();
    };
    let global = addresses.iter().filter(|address| address.global);
    global
        .map(|address| address.net.addr().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::node::Netns;

    #[test]
    fn a_living_pod_s_address_is_free() {
        let mut fixture = Fixture::healthy();
        fixture.node.networks[0].reservations = Some(Vec::new());
        let found = fixture.look();
        // Its rules and its ifb are a living pod's.
        assert_eq!(ids(&found), ["link-orphan"]);
        assert_eq!(
            found[0].mend,
            [
                r"printf '%s\r\n%s' pod eth0 > /var/lib/cni/networks/k8nd/10.1.1.2",
                r"printf '%s\r\n%s' pod eth0 > /var/lib/cni/networks/k8nd/fd00:0:0:1::2"
            ]
        );
        assert_eq!(found[0].severity.to_string(), "error");
    }

    #[test]
    fn what_a_del_has_left() {
        let mut fixture = Fixture::healthy();
        fixture.node.networks[0].reservations = Some(Vec::new());
        fixture.node.attachments.as_mut().unwrap()[0].netns = Netns::Gone;
        let found = fixture.look();
        assert_eq!(ids(&found), ["link-orphan"]);
        assert_eq!(
            found[0].mend,
            ["podnet del k8nd /run/netns/pod --container-id pod --ifname eth0"]
        );
    }

    #[test]
    fn a_store_that_cannot_be_read_and_networks_of_others() {
        let mut fixture = Fixture::healthy();
        fixture.node.networks[0].reservations = None;
        assert_eq!(fixture.look(), []);
        let mut fixture = Fixture::healthy();
        fixture.add_link(9, "veth9");
        let link = fixture.link("veth9");
        (link.kind, link.alias) = ("veth".to_owned(), "other/c/eth0".to_owned());
        assert_eq!(fixture.look(), []);
    }
}
