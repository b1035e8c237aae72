//! An address that is taken by nobody.

use cni::Attachment;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Network;
use crate::whose::Life;

pub const KIND: Kind = Kind {
    id: "reservation-orphan",
    means: "An address is reserved for an attachment that has no interface: its DEL never came, or failed. \
            Enough of them, and the range is full.",
    mend: "remove what is left of the attachment: `podnet del`, or `podnet gc` for all of a network",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let networks = case.node.networks.iter();
    let owners = networks.flat_map(|network| {
        let owners = network.reserved().into_iter();
        owners.map(move |owner| (network, owner))
    });
    let gone = owners.filter(|(_, owner)| case.node.life_of(owner) == Life::Gone);
    gone.map(|(network, owner)| finding(case, network, &owner))
        .collect()
}

fn finding(case: &Case, network: &Network, owner: &Attachment) -> Finding {
    let reservations = network.reservations.iter().flatten();
    let own = reservations.filter(|one| one.container_id == owner.container_id);
    let own = own.filter(|one| {
        one.ifname
            .as_ref()
            .is_none_or(|ifname| *ifname == owner.ifname)
    });
    let files: Vec<_> = own.map(|one| one.file.display().to_string()).collect();
    let breaks = format!("an address is lost to other pods, as long as {owner} holds it");
    let known = match case
        .node
        .attached(owner)
        .and_then(|one| one.known.netns.as_ref())
    {
        Some(netns) => format!(
            "its namespace {} is gone, or has no {}",
            netns.display(),
            owner.ifname
        ),
        None => "the runtime's cache does not know it".to_owned(),
    };
    Finding::warning(&KIND, breaks)
        .by(files.join(", "))
        .by(format!("no link of this node is {owner}'s; {known}"))
        .mended_by(case.node.removal_of(owner))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::node::Netns;

    #[test]
    fn nobody_has_the_address() {
        let mut fixture = Fixture::healthy();
        fixture.reserve("10.1.1.77", "dead", "net1");
        let found = fixture.look();
        assert_eq!(ids(&found), ["reservation-orphan"]);
        assert_eq!(
            found[0].mend,
            ["podnet del k8nd /run/netns/none --container-id dead --ifname net1"]
        );
        assert_eq!(found[0].evidence[0], "/var/lib/cni/networks/k8nd/10.1.1.77");
    }

    #[test]
    fn the_namespace_tells_where_the_link_does_not() {
        let mut fixture = Fixture::healthy();
        fixture.attach("other", "10.1.1.77");
        fixture
            .node
            .links
            .retain(|link| link.alias != "k8nd/other/eth0");
        assert_eq!(fixture.look(), []);
        let attachments = fixture.node.attachments.as_mut().unwrap();
        let other = attachments.last_mut().unwrap();
        other.netns = Netns::Gone;
        assert_eq!(ids(&fixture.look()), ["reservation-orphan"]);
        let attachments = fixture.node.attachments.as_mut().unwrap();
        attachments.last_mut().unwrap().netns = Netns::Closed("EPERM".to_owned());
        assert_eq!(fixture.look(), []);
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        let mut fixture = Fixture::healthy();
        fixture.reserve("10.1.1.77", "dead", "eth0");
        fixture.node.attachments = None;
        assert_eq!(fixture.look(), []);
        // A port that a reference plugin made may be anybody's.
        let mut fixture = Fixture::healthy();
        fixture.reserve("10.1.1.77", "dead", "eth0");
        fixture.add_link(9, "veth12345678");
        let port = fixture.link("veth12345678");
        (port.kind, port.master) = ("veth".to_owned(), Some(3));
        assert_eq!(fixture.look(), []);
        // Another plugin's interface says nothing on the node.
        let mut fixture = Fixture::healthy().without_plan();
        fixture.reserve("10.1.1.77", "dead", "eth0");
        fixture.node.networks[0].bridged = None;
        assert!(!ids(&fixture.look()).contains(&"reservation-orphan"));
        // Nobody's address is free.
        let mut fixture = Fixture::healthy();
        fixture.reserve("10.1.1.77", "", "eth0");
        assert_eq!(fixture.look(), []);
    }
}
