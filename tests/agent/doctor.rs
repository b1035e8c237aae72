//! `podnet doctor` on a node with an agent, without one, and with something else in its place.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tests::{Agent, Node, TO_BOTH, api_node, eventually, segment_with_api, told};

/// What the doctor finds of an agent, and all that it says.
#[track_caller]
fn of_agent(node: &Node, words: &[&str]) -> (Vec<String>, String) {
    let answer = node.podnet(&[&["doctor"], words].concat());
    assert!(answer.status <= 1, "{answer:?}");
    let mut found = told(&answer, "finding=");
    found.retain(|one| one.starts_with("agent-"));
    (found, answer.stdout)
}

/// Waits until it finds these, and says these words.
#[track_caller]
fn finds(node: &Node, expected: &[&str], words: &[&str]) {
    let found = eventually(|| {
        let (found, said) = of_agent(node, &[]);
        let is_said = words.iter().all(|words| said.contains(words));
        match found == expected && is_said {
            true => Ok(()),
            false => Err(said),
        }
    });
    let said = found.err().unwrap_or_default();
    assert!(said.is_empty(), "not {expected:?} {words:?}: {said}");
}

#[test]
fn the_doctor_tells_what_the_agent_says_and_that_it_is_gone() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    finds(node, &[], &[]);
    let mut agent = Agent::start(node, &api, &[]);
    agent.routes(&TO_BOTH);
    finds(node, &[], &[]);
    api.put(&api_node("v-far", &["10.200.9.0/24"], &["203.0.113.7"]));
    let reason = "NextHopOffLink, node v-far";
    finds(node, &["agent-finding"], &[reason, "10.200.9.0/24"]);
    // It waits for a range that pods' addresses are of.
    api.put(&api_node("k8sworker0", &[], &["192.168.199.210"]));
    std::fs::remove_file(node.configurations().join("10-podnet.conflist")).unwrap();
    let all = ["agent-unready", "agent-finding", "agent-finding"];
    finds(node, &all, &["k8sworker0 has no spec.podCIDRs yet", reason]);

    let addresses = ["192.168.199.210", "fd99::210"];
    api.put(&api_node("k8sworker0", &["10.200.0.0/24"], &addresses));
    finds(node, &["agent-finding"], &[reason]);
    agent.kill();
    finds(node, &["agent-gone"], &["4 routes", "refused"]);
    let (found, _) = of_agent(node, &["--agent", "127.0.0.1:9463"]);
    assert_eq!(found, ["agent-gone"]);
    node.podnet(&["routes", "remove"]).ok();
    finds(node, &[], &[]);
}

#[test]
fn whatever_listens_in_its_place_does_not_break_the_doctor() {
    let Some((segment, _api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let told = |message: &str| {
        format!(
            "HTTP/1.1 200 OK\r\n\r\n{{\"node\": \"a\", \"ready\": true, \"why\": \"\", \"findings\": \
             [{{\"node\": \"b\", \"reason\": \"X\", \"message\": \"{message}\"}}]}}"
        )
    };
    let kinds = [
        (None, &[][..]),
        (Some(b"\xff\x00\r\n\r\n\x1b[2J".to_vec()), &[]),
        (Some(vec![b'A'; 16 << 20]), &[]),
        (
            Some(told("a\\nfinding=forged\\u001b[2J").into_bytes()),
            &["agent-finding"],
        ),
    ];
    for (answer, expected) in kinds {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = node.namespace.run(listen).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || serve(&listener, answer.as_deref()));
        let (found, said) = of_agent(node, &["--agent", &address]);
        assert_eq!(found, expected, "{said}");
        assert!(!said.contains('\x1b') && !said.contains("\nfinding=forged"));
        server.join().unwrap();
    }
}

/// One connection: an answer, or none for as long as the other end waits.
fn serve(listener: &TcpListener, answer: Option<&[u8]>) {
    let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
    match answer {
        Some(answer) => {
            let _ = stream.read(&mut [0; 256]).unwrap();
            // The other end may have had enough.
            let _ = stream.write_all(answer);
        }
        None => drop(stream.read_to_end(&mut Vec::new())),
    }
}
