//! A configuration that says nothing.

use cni::code;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Configuration;

pub const KIND: Kind = Kind {
    id: "conflist-unreadable",
    means: "A file of the folder of configurations cannot be read, or is no configuration of its \
            ending: runtimes pass over it, or refuse to start pods. Or the plugin that reads a value refuses it: every ADD fails.",
    mend: "correct the file, or move it away",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let files = case.node.configurations.iter();
    let bad = files.filter_map(|file| Some((&file.file, file.list.as_ref().err()?)));
    let bad = bad.filter(|(_, error)| error.code != code::INCOMPATIBLE_VERSION);
    let bad = bad.map(|(file, error)| {
        let file = file.display();
        Finding::error(
            &KIND,
            format!("the network of {file} does not exist for the runtime"),
        )
        .by(error.to_string())
        .advised(format!("correct {file}, or move it away"))
    });
    let files = case.node.configurations.iter();
    bad.chain(files.filter_map(refused)).collect()
}

/// A list that a runtime reads, and a plugin does not.
fn refused(file: &Configuration) -> Option<Finding> {
    let list = file.list.as_ref().ok()?;
    let values = plan::lint::refused(list);
    if values.is_empty() {
        return None;
    }
    let path = file.file.display();
    let breaks = format!(
        "no pod can be attached to {}: a plugin refuses {path}",
        list.name
    );
    let finding = values
        .iter()
        .fold(Finding::error(&KIND, breaks), |finding, value| {
            finding.by(value.to_string())
        });
    Some(finding.advised(format!("correct {path}")))
}

#[cfg(test)]
mod tests {
    use cni::Error;
    use cni::runtime::NetworkList;

    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn a_torn_file() {
        let mut fixture = Fixture::healthy();
        fixture.add_configuration(
            "/etc/cni/net.d/20.conflist",
            Err(Error::new(6, "20.conflist: EOF")),
        );
        let found = fixture.look();
        assert_eq!(ids(&found), ["conflist-unreadable"]);
        assert_eq!(found[0].evidence, ["20.conflist: EOF"]);
    }

    #[test]
    fn values_with_which_every_add_fails() {
        let mut fixture = Fixture::healthy();
        let text = r#"{"cniVersion": "1.0.0", "name": "odd", "plugins": [{"type": "bridge",
            "isGateway": "true", "ipam": {"type": "host-local", "subnet": "10.1.1.0/33"}}]}"#;
        let list = NetworkList::parse(text.into()).unwrap();
        fixture.add_configuration("/etc/cni/net.d/20.conflist", Ok(list));
        let mut found = fixture.look();
        found.retain(|finding| finding.id == "conflist-unreadable");
        assert_eq!(
            found[0].evidence,
            [
                "plugins[0].isGateway: the plugin refuses \"true\": expected true or false, without quotes",
                "plugins[0].ipam.subnet: the plugin refuses \"10.1.1.0/33\": expected a network, as \
                 10.1.0.0/24"
            ]
        );
        assert_eq!(found[0].mend, ["# correct /etc/cni/net.d/20.conflist"]);
    }
}
