//! A shaper of nobody.

use net::Link;

use super::link_orphan::is_orphan;
use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::whose::named_by;

pub const KIND: Kind = Kind {
    id: "ifb-orphan",
    means: "An ifb, by which a pod's egress is limited, is there without its pod: neither a link nor an \
            address is left of it, or nothing is sent through it.",
    mend: "remove what is left: `podnet del`; one that says nothing of its pod: `ip link del`",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let ifbs = case.node.links.iter().filter(|link| link.kind == "ifb");
    ifbs.filter_map(|ifb| finding(case, ifb)).collect()
}

fn finding(case: &Case, ifb: &Link) -> Option<Finding> {
    let name = &ifb.name;
    if let Some(owner) = named_by(ifb) {
        let left = is_orphan(case, &owner) && case.node.veth_of(&owner).is_none();
        let breaks = format!("nothing yet: {name} is what a DEL of {owner} has left");
        let finding = Finding::warning(&KIND, breaks).by(format!(
            "ifb {name} is {owner}'s, of which there is neither link nor address"
        ));
        return left.then(|| finding.mended_by(case.node.removal_of(&owner)));
    }
    let redirected = case
        .node
        .redirects
        .iter()
        .any(|(_, target)| *target == ifb.index);
    (is_reference_ifb(ifb) && !redirected).then(|| {
        Finding::warning(&KIND, format!("nothing yet: {name} is what a DEL has left"))
            .by(format!("no link's ingress is redirected to ifb {name}"))
            .mended_by(format!("ip link del {name}"))
    })
}

/// As the reference plugin names them.
fn is_reference_ifb(ifb: &Link) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hash = ifb.name.strip_prefix("bwp");
    ifb.alias.is_empty() && hash.is_some_and(|hash| hash.len() == 12 && hash.bytes().all(hex))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn one_that_says_whose_it_was() {
        let mut fixture = Fixture::healthy();
        fixture.add_link(9, "bwp000000000000");
        let ifb = fixture.link("bwp000000000000");
        (ifb.kind, ifb.alias) = ("ifb".to_owned(), "k8nd/dead/eth0".to_owned());
        let found = fixture.look();
        assert_eq!(ids(&found), ["ifb-orphan"]);
        assert_eq!(
            found[0].mend,
            ["podnet del k8nd /run/netns/none --container-id dead --ifname eth0"]
        );
    }

    #[test]
    fn one_that_says_nothing() {
        let mut fixture = Fixture::healthy();
        fixture.add_link(9, "bwp0123456789ab");
        fixture.link("bwp0123456789ab").kind = "ifb".to_owned();
        let found = fixture.look();
        assert_eq!(ids(&found), ["ifb-orphan"]);
        assert_eq!(found[0].mend, ["ip link del bwp0123456789ab"]);
        fixture.node.redirects.push((4, 9));
        assert_eq!(fixture.look(), []);
        // Somebody else's.
        fixture.node.redirects.pop();
        fixture.link("bwp0123456789ab").name = "ifb0".to_owned();
        assert_eq!(fixture.look(), []);
    }
}
