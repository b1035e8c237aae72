//! Rules of nobody.

use std::collections::BTreeMap;

use cni::Attachment;
use firewall::Owner;
use firewall::view::{Leftover, quote};

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Network;
use crate::whose::{Life, named_by};

pub const KIND: Kind = Kind {
    id: "rules-orphan",
    means: "Chains or elements of an attachment are in the firewall, and neither its link nor its address \
            is there: a host port may lead to where nobody is, or to another pod.",
    mend: "remove what is left: `podnet del`, or `podnet gc` for all of a network",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    // Who lives is not known without them.
    let networks = case
        .node
        .networks
        .iter()
        .filter(|network| network.reservations.is_some());
    networks
        .flat_map(|network| of_network(case, network))
        .collect()
}

fn of_network(case: &Case, network: &Network) -> Vec<Finding> {
    let valid = valid(case, network);
    let owners = valid.iter().map(|attachment| Owner {
        network: &attachment.network,
        container_id: &attachment.container_id,
        ifname: &attachment.ifname,
    });
    let owners: Vec<Owner> = owners.collect();
    let mut by_owner: BTreeMap<Option<Attachment>, Vec<Leftover>> = BTreeMap::new();
    for leftover in case.node.rules.garbage(&network.name, &owners) {
        let owner = owner_of(network, &leftover);
        by_owner.entry(owner).or_default().push(leftover);
    }
    let found = by_owner.into_iter();
    found
        .map(|(owner, leftovers)| finding(case, network, owner, &leftovers))
        .collect()
}

/// Whoever has an address, a link, or a namespace with the interface in it.
fn valid(case: &Case, network: &Network) -> Vec<Attachment> {
    let by_links = case.node.links.iter().filter_map(named_by);
    let cached = case.node.attachments.iter().flatten();
    let cached = cached.map(|attached| attached.known.attachment.clone());
    let alive = cached.filter(|attachment| case.node.life_of(attachment) != Life::Gone);
    let all = network.reserved().into_iter().chain(by_links).chain(alive);
    all.filter(|attachment| attachment.network == network.name)
        .collect()
}

/// The comments of both backends end with the container's id: `id: "ID"`, or `if: NAME, id: ID`.
fn owner_of(network: &Network, leftover: &Leftover) -> Option<Attachment> {
    let (before, id) = leftover.comment.rsplit_once("id: ")?;
    let ifname = before
        .rsplit_once("if: ")
        .and_then(|(_, rest)| rest.strip_suffix(", "));
    let id = id.trim_matches('"');
    cni::is_identifier(id).then(|| Attachment::new(&network.name, id, ifname.unwrap_or("eth0")))
}

fn finding(
    case: &Case,
    network: &Network,
    owner: Option<Attachment>,
    left: &[Leftover],
) -> Finding {
    let name = &network.name;
    let whose = owner
        .as_ref()
        .map_or(format!("an attachment of {name}"), ToString::to_string);
    let breaks = format!("host ports of {whose} may lead to nobody, or to another pod");
    let finding = Finding::warning(&KIND, breaks);
    let finding = left
        .iter()
        .fold(finding, |finding, leftover| finding.by(&leftover.what));
    let finding = finding.by("there is neither a link nor an address of it");
    match owner {
        Some(owner) => finding.mended_by(case.node.removal_of(&owner)),
        None => finding.mended_by(format!("podnet gc {}{}", quote(name), case.node.places())),
    }
}

#[cfg(test)]
mod tests {
    use firewall::Family;

    use crate::findings::tests::{Fixture, ids};

    const CHAIN: &str = "CNI-DN-0123456789abcdef01234";

    fn rules(id: &str) -> String {
        format!(
            "-N {CHAIN}\n-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment \
             \"dnat name: \\\"k8nd\\\" id: \\\"{id}\\\"\" -m multiport --dports 8080 -j {CHAIN}\n\
             -A {CHAIN} -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.1.1.9:80\n"
        )
    }

    #[test]
    fn chains_of_an_attachment_that_is_no_more() {
        let mut fixture = Fixture::healthy();
        let view = std::mem::take(&mut fixture.node.rules);
        fixture.node.rules = view.with_table(Family::V4, "iptables", "nat", &rules("dead"));
        let found = fixture.look();
        assert_eq!(ids(&found), ["rules-orphan"]);
        assert_eq!(found[0].evidence[0], format!("IPv4 iptables chain {CHAIN}"));
        assert_eq!(
            found[0].mend,
            ["podnet del k8nd /run/netns/none --container-id dead --ifname eth0"]
        );
        fixture.node.networks[0].reservations = None;
        assert_eq!(fixture.look(), []);
    }

    #[test]
    fn an_id_that_is_none_is_left_to_gc() {
        let mut fixture = Fixture::healthy();
        let view = std::mem::take(&mut fixture.node.rules);
        fixture.node.rules = view.with_table(Family::V4, "iptables", "nat", &rules("$(x)"));
        assert_eq!(fixture.look()[0].mend, ["podnet gc k8nd"]);
    }
}
