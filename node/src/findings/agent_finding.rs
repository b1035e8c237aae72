//! What the agent of a node has found.

use std::net::SocketAddr;

use crate::agent::{Agent, Told};
use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "agent-finding",
    means: "The agent of this node has found something wrong with what the API tells of a node, or with this \
            one: the node, the reason and the message are its own.",
    mend: "see agent.md for its reason",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let Agent::Says { address, says } = &case.node.agent else {
        return Vec::new();
    };
    let findings = says.findings.iter();
    findings.map(|told| finding(*address, told)).collect()
}

/// What another program has said is evidence, and never a part of a command.
fn finding(address: SocketAddr, told: &Told) -> Finding {
    let Told {
        node,
        reason,
        message,
    } = told;
    Finding::warning(&KIND, message.as_str())
        .by(format!("the agent at {address}: {reason}, node {node}"))
        .advised(format!("docs/agent.md says what to do for {reason}"))
}

#[cfg(test)]
mod tests {
    use crate::agent::{Agent, Says, Told};
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn each_of_an_agent_s_and_no_command_of_it() {
        let mut fixture = Fixture::healthy();
        let told = |reason: &str| Told {
            node: "c\nreboot".to_owned(),
            reason: reason.to_owned(),
            message: "node c has no address\nreboot".to_owned(),
        };
        fixture.node.agent = Agent::Says {
            address: "127.0.0.1:9462".parse().unwrap(),
            says: Says {
                ready: true,
                findings: ["NoAddress", "BadPodRange"].map(told).into(),
                ..Says::default()
            },
        };
        let found = fixture.look();
        assert_eq!(ids(&found), ["agent-finding"; 2]);
        assert!(found[0].evidence[0].contains("NoAddress, node c"));
        for one in found {
            let is_remark = |line: &String| line.starts_with("# ") && !line.contains('\n');
            assert!(one.mend.iter().all(is_remark), "{one:?}");
        }
    }
}
