//! A range that will soon be empty.

use firewall::view::quote;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::{Network, Pool};

pub const KIND: Kind = Kind {
    id: "pool-nearly-full",
    means: "More than nine tenths of the addresses that a network can give on this node are taken: soon, \
            or already, ADD finds none.",
    mend: "remove what attachments that are no more have left: `podnet gc`; or plan a wider range",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let networks = case.node.networks.iter();
    let pools = networks.flat_map(|network| network.pools.iter().map(move |pool| (network, pool)));
    pools
        .filter_map(|(network, pool)| finding(case, network, pool))
        .collect()
}

fn finding(case: &Case, network: &Network, pool: &Pool) -> Option<Finding> {
    let (size, taken) = (pool.size(), pool.taken(network.reservations.as_ref()?));
    if taken.saturating_mul(10) <= size.saturating_mul(9) {
        return None;
    }
    let ranges: Vec<_> = pool
        .0
        .iter()
        .map(|range| range.subnet.to_string())
        .collect();
    let (name, ranges) = (&network.name, ranges.join(", "));
    let left = size.saturating_sub(taken);
    let breaks = format!("{left} more pods can be attached to {name}, and then none");
    let finding = match left {
        0 => Finding::error(&KIND, breaks),
        _ => Finding::warning(&KIND, breaks),
    };
    let store = network
        .store
        .as_ref()
        .map(|store| store.display().to_string());
    Some(
        finding
            .by(format!(
                "{taken} of {size} addresses of {ranges} are taken, in {}",
                store.unwrap_or_default()
            ))
            .mended_by(format!("podnet gc {}{}", quote(name), case.node.places()))
            .advised("or plan a wider range, with fewer nodes"),
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn more_than_nine_tenths() {
        let mut fixture = Fixture::healthy();
        let range = &mut fixture.node.networks[0].pools[0].0[0];
        range.end = "10.1.1.11".parse().unwrap();
        // The gateway and ten addresses, the pod's among them.
        for last in 3..=10 {
            let id = format!("c{last}");
            fixture.attach(&id, &format!("10.1.1.{last}"));
        }
        assert_eq!(ids(&fixture.look()), [""; 0]);
        fixture.attach("c11", "10.1.1.11");
        let found = fixture.look();
        assert_eq!(ids(&found), ["pool-nearly-full"]);
        assert!(
            found[0].evidence[0].starts_with("10 of 10 addresses of 10.1.1.0/24"),
            "{found:?}"
        );
        assert_eq!(found[0].severity.to_string(), "error");
    }
}
