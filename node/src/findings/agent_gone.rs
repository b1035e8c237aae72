//! What an agent has made, and no agent that keeps it.

use crate::agent::{Agent, USUAL_AGENT_CONFLIST};
use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::routes::{PROTOCOL, words};

/// How many routes are shown.
const SHOWN: usize = 3;

pub const KIND: Kind = Kind {
    id: "agent-gone",
    means: "There are routes and the conflist of an agent, and no agent answers: pods go on as they are, and \
            nodes that come, change or go are not followed. Where a plan is told the routes are compared with \
            it, and this is not looked for.",
    mend: "start the agent again, name where it serves (`--agent`), or take away what it has made: `podnet \
           routes remove`",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let Agent::Silent { address, why } = &case.node.agent else {
        return Vec::new();
    };
    // `podnet routes apply` makes the same routes; its conflist has another name.
    let is_agents = |name: &std::ffi::OsStr| name == USUAL_AGENT_CONFLIST;
    let mut files = case.node.configurations.iter();
    let conflist = files.find(|one| one.file.file_name().is_some_and(is_agents));
    let routes: Vec<_> = case
        .node
        .main_routes()
        .filter(|entry| entry.protocol == PROTOCOL)
        .collect();
    let (Some(conflist), None, false) = (conflist, case.site, routes.is_empty()) else {
        return Vec::new();
    };
    let breaks = format!(
        "nothing yet: {} routes to other nodes' pods stay as they are, whatever becomes of these nodes",
        routes.len()
    );
    let finding = Finding::warning(&KIND, breaks)
        .by(format!("no agent answers at {address}: {why}"))
        .by(format!("{} is there", conflist.file.display()));
    let shown = routes.into_iter().take(SHOWN);
    let finding = shown.fold(finding, |finding, entry| {
        finding.by(words(case.node, entry))
    });
    vec![finding.advised(
        "start the agent; `podnet routes remove` takes away its routes where there is to be none",
    )]
}

#[cfg(test)]
mod tests {
    use cni::runtime::NetworkList;

    use crate::agent::Agent;
    use crate::findings::tests::{Fixture, ids};
    use crate::routes::PROTOCOL;

    #[test]
    fn both_routes_and_conflist_are_there_and_nobody_answers() {
        let mut made = Fixture::healthy().without_plan();
        let silent = Agent::Silent {
            address: "127.0.0.1:9462".parse().unwrap(),
            why: "Connection refused".to_owned(),
        };
        made.node.agent = silent.clone();
        // As `podnet routes apply` leaves them.
        for entry in &mut made.node.routes {
            if entry.protocol == 4 {
                entry.protocol = PROTOCOL;
            }
        }
        assert_eq!(ids(&made.look()), [""; 0]);
        let other = NetworkList::parse(
            r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "portmap"}]}"#.into(),
        );
        made.add_configuration("/etc/cni/net.d/10-podnet.conflist", other);
        let found = made.look();
        assert_eq!(ids(&found), ["agent-gone"]);
        assert!(found[0].evidence[0].contains("9462: Connection refused"));
        assert_eq!(found[0].evidence.len(), 5, "{found:?}");
        // One that answers, nobody asked, a plan, and no route.
        let mut answers = made.clone();
        answers.node.agent = Agent::NotAsked;
        assert_eq!(ids(&answers.look()), [""; 0]);
        let mut planned = made.clone();
        planned.site = Fixture::healthy().site;
        assert!(!ids(&planned.look()).contains(&"agent-gone"));
        made.node.routes.retain(|entry| entry.protocol != PROTOCOL);
        assert_eq!(ids(&made.look()), [""; 0]);
    }
}
