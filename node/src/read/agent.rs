//! Asking the agent of a node.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::agent::{Agent, Says};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(1);
/// How long an answer may be, in bytes: findings of some ten thousand nodes.
const MOST: usize = 8 << 20;

impl Agent {
    /// Asks what listens at an address of the calling thread's namespace.
    pub fn ask(address: SocketAddr) -> Agent {
        let answer = get(address).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer within a second".to_owned(),
            _ => error.to_string(),
        });
        match answer.and_then(|answer| Says::of_answer(&answer)) {
            Ok(says) => Agent::Says { address, says },
            Err(why) => Agent::Silent { address, why },
        }
    }
}

fn get(address: SocketAddr) -> io::Result<Vec<u8>> {
    let end = Instant::now() + LIMIT;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /findings HTTP/1.0\r\nhost: podnet\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        // Of the whole: one byte now and then is no answer either.
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        if length == 0 {
            return Ok(answer);
        }
        answer.extend_from_slice(part.get(..length).unwrap_or_default());
        if answer.len() > MOST {
            return Err(io::Error::other(format!(
                "an answer of more than {MOST} bytes"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What is heard of one that does this with a connection.
    fn heard(serve: impl FnOnce(TcpStream) + Send + 'static) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener.accept().unwrap().0));
        Agent::ask(address)
    }

    fn why(agent: Agent) -> String {
        match agent {
            Agent::Silent { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_that_answers() {
        let body = r#"{"node": "a", "ready": true, "why": "", "findings": []}"#;
        let agent = heard(move |mut stream| {
            let mut part = [0; 256];
            let length = stream.read(&mut part).unwrap();
            assert!(part[..length].starts_with(b"GET /findings HTTP/1.0\r\n"));
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
        });
        assert!(matches!(agent, Agent::Says { says, .. } if says.ready));
    }

    #[test]
    fn one_that_hangs_one_that_drips_and_one_that_never_ends() {
        // They hold the connection until the other end is gone.
        let hangs = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
        assert!(why(heard(hangs)).contains("within a second"));
        let drips = |mut stream: TcpStream| {
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        };
        assert!(why(heard(drips)).contains("within a second"));
        let floods = |mut stream: TcpStream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'['; 64 << 10]).is_ok() {}
        };
        // On a slow machine the second is over before.
        let flooded = why(heard(floods));
        let is_bounded = flooded.contains("more than") || flooded.contains("within a second");
        assert!(is_bounded, "{flooded}");
    }

    #[test]
    fn nobody() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        assert!(why(Agent::ask(address.unwrap())).contains("refused"));
    }
}
