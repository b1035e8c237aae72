//! A node without a network.

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "conflist-missing",
    means: "The folder of configurations has no file of a network (`.conflist`, `.conf`, `.json`): the \
            runtime starts no pod, and the node stays NotReady.",
    mend: "write one: `podnet plan conflist`",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let node = case.node;
    let unread = node
        .unread
        .iter()
        .any(|unread| unread.what.starts_with("configurations in "));
    if unread || !node.configurations.is_empty() {
        return Vec::new();
    }
    let finding = Finding::error(&KIND, "the runtime starts no pod: it knows no network")
        .by(format!("no configuration in {}", node.conf.display()))
        .advised(format!(
            "podnet plan conflist -f cluster.yaml > {}",
            node.conf.join("10-pods.conflist").display()
        ));
    vec![finding]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::node::Unread;

    #[test]
    fn an_empty_folder_and_one_that_cannot_be_read() {
        let mut fixture = Fixture::fresh();
        fixture.node.configurations.clear();
        fixture.node.networks.clear();
        let found = fixture.look();
        assert_eq!(ids(&found), ["conflist-missing"]);
        assert_eq!(found[0].evidence, ["no configuration in /etc/cni/net.d"]);
        fixture.node.unread.push(Unread {
            what: "configurations in /etc/cni/net.d".to_owned(),
            why: "Permission denied".to_owned(),
        });
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
