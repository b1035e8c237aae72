//! A plugin that does not answer.

use firewall::view::quote;

use super::plugin_missing::users;
use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "plugin-broken",
    means: "A plugin's program is there, and does not answer: it is not executable, is made for another \
            machine, or says no versions.",
    mend: "make it executable, or install it anew",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let programs = case.node.programs.iter();
    let broken = programs.filter_map(|(kind, program)| {
        let file = program.file.as_ref()?;
        let why = program.versions.as_ref().err()?;
        let users = users(&case.node.networks, kind);
        let file = file.display();
        let finding = Finding::error(
            &KIND,
            format!("no pod can be attached to {users}: {kind} does not run"),
        )
        .by(format!("{file} is there: {why}"));
        Some(match why.contains("failed to find plugin") {
            true => finding.mended_by(format!("chmod 0755 {}", quote(&file.to_string()))),
            false => finding.advised(format!("install -m 0755 {kind} {file}")),
        })
    });
    broken.collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn not_executable_or_of_another_kind() {
        for (why, mend) in [
            (
                "failed to find plugin \"bridge\" in path",
                "chmod 0755 /opt/cni/bin/bridge",
            ),
            (
                "Exec format error",
                "# install -m 0755 bridge /opt/cni/bin/bridge",
            ),
        ] {
            let mut fixture = Fixture::healthy();
            fixture.node.programs.get_mut("bridge").unwrap().versions = Err(why.to_owned());
            let found = fixture.look();
            assert_eq!(ids(&found), ["plugin-broken"]);
            assert_eq!(found[0].mend, [mend]);
        }
    }
}
