//! A link of the bridge's name that is none.

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "bridge-taken",
    means: "A link that is no bridge has the bridge's name: every ADD fails.",
    mend: "rename or delete the link, or name another bridge in the conflist",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let links = case.bridges().into_iter().filter_map(|bridge| bridge.link);
    let taken = links.filter(|link| link.kind != "bridge");
    taken
        .map(|link| {
            let name = &link.name;
            let kind = match link.kind.as_str() {
                "" => "a physical link",
                kind => kind,
            };
            Finding::error(&KIND, format!("no pod can be attached: {name} is taken"))
                .by(format!("{name} is {kind}, not a bridge"))
                .advised(format!(
                    "rename it (ip link set dev {name} name NEWNAME), or name another bridge in the conflist"
                ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn a_link_of_another_kind() {
        let mut fixture = Fixture::healthy();
        fixture.link("cni0").kind = "ifb".to_owned();
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-taken"]);
        assert_eq!(found[0].evidence, ["cni0 is ifb, not a bridge"]);
    }
}
