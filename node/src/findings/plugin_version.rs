//! A plugin that is older than its conflist.

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Network;

pub const KIND: Kind = Kind {
    id: "plugin-version",
    means: "A plugin does not speak the version of the conflist that names it: every ADD fails with \
            \"incompatible CNI versions\".",
    mend: "install a newer plugin, or lower `cniVersion`",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let networks = case.node.networks.iter();
    networks
        .flat_map(|network| of_network(case, network))
        .collect()
}

fn of_network(case: &Case, network: &Network) -> Vec<Finding> {
    let wanted = network.version.as_str();
    let programs = network.kinds.iter();
    let programs = programs.filter_map(|kind| Some((kind, case.node.programs.get(kind)?)));
    let old = programs.filter_map(|(kind, program)| {
        let spoken = program.versions.as_ref().ok()?;
        let known = spoken.iter().any(|version| version == wanted);
        (!known).then(|| finding(network, kind, spoken))
    });
    old.collect()
}

fn finding(network: &Network, kind: &str, spoken: &[String]) -> Finding {
    let (name, file, wanted) = (&network.name, network.file.display(), network.version);
    let breaks = format!("no pod can be attached to {name}: {kind} does not speak {wanted}");
    let newest = spoken.last().cloned().unwrap_or_default();
    Finding::error(&KIND, breaks)
        .by(format!(
            "{file} is of cniVersion {wanted}; {kind} speaks {}",
            spoken.join(", ")
        ))
        .advised(format!(
            "install a newer {kind}, or set \"cniVersion\": \"{newest}\" in {file}"
        ))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn an_old_plugin() {
        let mut fixture = Fixture::healthy();
        let program = fixture.node.programs.get_mut("bandwidth").unwrap();
        program.versions = Ok(vec!["0.3.0".to_owned(), "0.4.0".to_owned()]);
        let found = fixture.look();
        assert_eq!(ids(&found), ["plugin-version"]);
        let expected =
            "/etc/cni/net.d/10-k8nd.conflist is of cniVersion 1.0.0; bandwidth speaks 0.3.0, 0.4.0";
        assert_eq!(found[0].evidence, [expected]);
    }
}
