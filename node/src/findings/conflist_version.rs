//! A configuration of a version that nobody knows.

use cni::{Version, code};

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "conflist-version",
    means: "A configuration is of a version of the specification that is not known.",
    mend: "write one that is: 1.0.0 is understood by every runtime of today",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let files = case.node.configurations.iter();
    let bad = files.filter_map(|file| Some((&file.file, file.list.as_ref().err()?)));
    let bad = bad.filter(|(_, error)| error.code == code::INCOMPATIBLE_VERSION);
    bad.map(|(file, error)| {
        let file = file.display();
        let version = Version::V1_0_0;
        Finding::error(&KIND, format!("no plugin can be spoken to as {file} asks"))
            .by(format!("{error}"))
            .advised(format!("set \"cniVersion\": \"{version}\" in {file}"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use cni::{Error, code};

    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn a_version_of_the_future() {
        let mut fixture = Fixture::healthy();
        let error = Error::new(code::INCOMPATIBLE_VERSION, "config is \"9.9.9\"");
        fixture.add_configuration("/etc/cni/net.d/20.conflist", Err(error));
        assert_eq!(ids(&fixture.look()), ["conflist-version"]);
    }
}
