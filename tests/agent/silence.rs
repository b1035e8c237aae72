//! `podnet agent` and an API from which nothing comes any more, not even that it is gone.

use std::time::{Duration, Instant};

use tests::{
    Agent, Failing, TO_BOTH, TO_WORKER_2, agent_routes, eventually_within, segment_with_api, sh,
};

/// Before a watch that is silent is given up for that alone.
const SOONER: Duration = Duration::from_secs(240);
const SAID: &str = "the API does not answer as it should";

/// Waits for words of the agent; how long that took.
#[track_caller]
fn says_sooner(agent: &Agent, words: &str) -> Duration {
    let began = Instant::now();
    let said = eventually_within(SOONER, || {
        agent.log().contains(words).then_some(()).ok_or(())
    });
    assert!(said.is_ok(), "{words}: not said: {}", agent.log());
    began.elapsed()
}

#[test]
fn packets_that_get_lost_are_noticed_before_the_watch_is_old() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    let agent = Agent::start(&segment.nodes[0], &api, &["--resync", "3600"]);
    agent.routes(&TO_BOTH);
    // After that it has no more to tell.
    agent.says("is False");
    let port = api.address.port();
    let rules = |verb: &str| {
        for side in ["--dport", "--sport"] {
            sh(
                node,
                &format!("iptables -w {verb} INPUT -i lo -p tcp {side} {port} -j DROP"),
            );
        }
    };
    rules("-A");
    api.delete("k8sworker1");
    let took = says_sooner(&agent, SAID);
    println!("noticed after {} s", took.as_secs());
    assert_eq!(agent_routes(node), TO_BOTH);
    rules("-D");
    let is_right = || match agent_routes(node) == TO_WORKER_2 {
        true => Ok(()),
        false => Err(agent_routes(node)),
    };
    eventually_within(SOONER, is_right).unwrap();
}

#[test]
fn a_watch_that_is_never_answered_is_asked_for_again() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let agent = Agent::start(&segment.nodes[0], &api, &["--resync", "3600"]);
    agent.routes(&TO_BOTH);
    agent.says("is False");
    // It cuts off the watch, and takes the next one without a word.
    api.fail(Failing::Silent);
    let took = says_sooner(&agent, "request timed out");
    println!("noticed after {} s", took.as_secs());
    assert_eq!(agent_routes(&segment.nodes[0].namespace), TO_BOTH);
}
