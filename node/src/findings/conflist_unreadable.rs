//! A configuration that says nothing.

use cni::code;

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "conflist-unreadable",
    means: "A file of the folder of configurations cannot be read, or is no configuration: runtimes pass \
            over it, or refuse to start pods.",
    mend: "correct the file, or move it away",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let files = case.node.configurations.iter();
    let bad = files.filter_map(|file| Some((&file.file, file.list.as_ref().err()?)));
    let bad = bad.filter(|(_, error)| error.code != code::INCOMPATIBLE_VERSION);
    bad.map(|(file, error)| {
        let file = file.display();
        Finding::error(
            &KIND,
            format!("the network of {file} does not exist for the runtime"),
        )
        .by(error.to_string())
        .advised(format!("correct {file}, or move it away"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use cni::Error;

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
}
