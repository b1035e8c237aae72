//! A plugin that is not there.

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Network;

pub const KIND: Kind = Kind {
    id: "plugin-missing",
    means: "No folder of plugins has a program that a conflist names: every ADD fails.",
    mend: "install it",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let programs = case.node.programs.iter();
    let missing = programs.filter(|(_, program)| program.file.is_none());
    missing
        .map(|(kind, program)| {
            let users = users(&case.node.networks, kind);
            let why = program.versions.as_ref().err().cloned().unwrap_or_default();
            let folder = case
                .node
                .plugins
                .first()
                .map(|folder| folder.display().to_string());
            let folder = folder.unwrap_or_default();
            Finding::error(
                &KIND,
                format!("no pod can be attached to {users}: {kind} is missing"),
            )
            .by(why)
            .advised(format!("install -m 0755 {kind} {folder}/{kind}"))
        })
        .collect()
}

/// The networks that name a plugin.
pub fn users(networks: &[Network], kind: &str) -> String {
    let users = networks
        .iter()
        .filter(|network| network.kinds.iter().any(|one| one == kind));
    let users: Vec<_> = users.map(|network| network.name.as_str()).collect();
    users.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn a_plugin_of_the_chain() {
        let mut fixture = Fixture::healthy();
        let program = fixture.node.programs.get_mut("portmap").unwrap();
        program.file = None;
        program.versions = Err("failed to find plugin \"portmap\"".to_owned());
        let found = fixture.look();
        assert_eq!(ids(&found), ["plugin-missing"]);
        assert_eq!(
            found[0].breaks,
            "no pod can be attached to k8nd: portmap is missing"
        );
        assert_eq!(
            found[0].mend,
            ["# install -m 0755 portmap /opt/cni/bin/portmap"]
        );
    }
}
