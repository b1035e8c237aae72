//! An agent that says of its node that pods have no network there.

use crate::agent::Agent;
use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "agent-unready",
    means: "The agent of this node says that pods have no network here: the node's condition \
            NetworkUnavailable keeps them off.",
    mend: "see agent.md for the reason that it gives",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let Agent::Says { address, says } = &case.node.agent else {
        return Vec::new();
    };
    if says.ready {
        return Vec::new();
    }
    let breaks = format!("pods get no network on {}: {}", says.node, says.why);
    let finding = Finding::error(&KIND, breaks);
    vec![
        finding
            .by(format!("the agent at {address} is not ready"))
            .advised("docs/agent.md says for each reason what to do"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::agent::{Agent, Says};
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn only_one_that_is_there_and_not_ready() {
        let mut fixture = Fixture::healthy();
        let address = "127.0.0.1:9462".parse().unwrap();
        for (ready, expected) in [(true, &[][..]), (false, &["agent-unready"])] {
            let says = Says {
                node: "b".to_owned(),
                ready,
                why: "the nodes are not known yet".to_owned(),
                findings: Vec::new(),
            };
            fixture.node.agent = Agent::Says { address, says };
            let found = fixture.look();
            assert_eq!(ids(&found), expected);
            for one in &found {
                assert!(one.breaks.contains("on b: the nodes"), "{one:?}");
            }
        }
    }
}
