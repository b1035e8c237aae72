//! What the agent of a node says of itself: as it serves it, and as the doctor has it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Where an agent serves, if nobody says otherwise.
pub const USUAL_AGENT: &str = "127.0.0.1:9462";
/// The name of its conflist in the folder of configurations, where it is not told another.
pub const USUAL_AGENT_CONFLIST: &str = "10-podnet.conflist";

/// What was heard of a node's agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Agent {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// None answers there.
    Silent {
        /// Where.
        address: SocketAddr,
        /// What is there instead.
        why: String,
    },
    /// It answers.
    Says {
        /// Where.
        address: SocketAddr,
        /// What.
        says: Says,
    },
}

/// What an agent says of its node: the body of its `/findings`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Says {
    /// The node.
    pub node: String,
    /// Whether pods have a network there.
    pub ready: bool,
    /// Why not; empty where they have.
    pub why: String,
    /// What is wrong with its node or with another.
    pub findings: Vec<Told>,
}

/// Something that an agent says is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The node that it is about.
    pub node: String,
    /// Why, in a word to search for.
    pub reason: String,
    /// What it is, and what to do.
    pub message: String,
}

impl Says {
    /// Reads an answer of HTTP. Whoever listens there may be another program, or mean ill: what is no
    /// agent's answer to the letter is none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_answer(answer: &[u8]) -> Result<Says, String> {
        let end = b"\r\n\r\n";
        let mut places = answer.windows(end.len());
        let head = places.position(|four| four == end);
        let (head, body) = head
            .and_then(|at| answer.split_at_checked(at))
            .ok_or("what answers speaks no HTTP")?;
        let first = head.split(|byte| *byte == b'\r').next();
        let first = String::from_utf8_lossy(first.unwrap_or_default());
        let mut words = first.split(' ');
        let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
        if !is_http || words.next() != Some("200") {
            return Err("what answers is no agent that tells of findings".to_owned());
        }
        let says: Says =
            serde_json::from_slice(body).map_err(|error| format!("its answer is none: {error}"))?;
        let is_word = |reason: &str| {
            (1..=64).contains(&reason.len())
                && reason.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        match says.findings.iter().all(|one| is_word(&one.reason)) {
            true => Ok(says),
            false => Err("its answer has a reason that is no word".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn what_an_agent_says() {
        let said = Says {
            node: "a".to_owned(),
            ready: false,
            why: "a: NoPodRange: x".to_owned(),
            findings: vec![Told {
                node: "b\n".to_owned(),
                reason: "NoAddress".to_owned(),
                message: "\r\n\r\n".to_owned(),
            }],
        };
        let text = serde_json::to_string(&said).unwrap();
        assert_eq!(Says::of_answer(&answer(&text)), Ok(said));
    }

    #[test]
    fn whatever_else_answers_is_no_agent() {
        let good = r#"{"node": "a", "ready": true, "why": "", "findings": []}"#;
        assert!(Says::of_answer(&answer(good)).is_ok());
        let refused = answer(good);
        let refused = String::from_utf8(refused).unwrap().replace("200", "404");
        let of_reason = |reason: &str| {
            let found = format!(r#"{{"node": "b", "reason": "{reason}", "message": ""}}"#);
            answer(&good.replace("[]", &format!("[{found}]")))
        };
        let deep = "[".repeat(100_000);
        for bytes in [
            Vec::new(),
            b"\r\n\r\n".to_vec(),
            b"SSH-2.0-x\r\n".to_vec(),
            b"\xff\xfe\r\n\r\n{}".to_vec(),
            refused.into_bytes(),
            answer(""),
            answer("{}"),
            answer("<html>"),
            answer(&deep),
            of_reason(""),
            of_reason("x\\nrm -rf"),
            of_reason(&"x".repeat(65)),
        ] {
            assert!(Says::of_answer(&bytes).is_err(), "{bytes:?}");
        }
        assert!(Says::of_answer(&of_reason("NoAddress")).is_ok());
    }
}
