//! Connections that come from outside by a pod's host port.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use cni::Version;
use ipnet::Ipv4Net;
use lab::{DEADLINE, End, Namespace, Server};

use super::Bench;
use crate::asked::capabilities;
use crate::node::Node;
use crate::rounds::{Runner, in_turn};
use crate::row::{Subject, Unit};
use crate::{Outcome, Row};

const ROUNDS: u32 = 10;
/// How long connections are counted in a round.
const COUNTED: Duration = Duration::from_millis(200);
const HOST_PORT: u16 = 21_000;

/// How many connections a second one client gets, one after the other, each by a rule that stands
/// behind those of all other pods. `number` is one that no other call for the same nodes has had.
pub(super) fn run(
    bench: &mut Bench,
    nodes: &[Node],
    subject: Subject,
    number: u8,
) -> Outcome<Vec<Row>> {
    let sites: Vec<_> = nodes
        .iter()
        .map(|node| Site::new(node, number))
        .collect::<Outcome<_>>()?;
    let mut runners: Vec<_> = nodes
        .iter()
        .zip(&sites)
        .map(|(node, site)| {
            let count = || Ok(vec![("connections".to_owned(), site.count()?)]);
            Runner::new(node.side, count)
        })
        .collect();
    let rounds = bench.options.rounds_of(ROUNDS);
    let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
    Ok(subject.rows(Unit::PerSecond, measured))
}

/// A pod that serves, and a host outside of its node.
struct Site {
    outside: Namespace,
    /// Where the node has the pod's port.
    target: SocketAddr,
    _server: Server,
}

impl Site {
    fn new(node: &Node, number: u8) -> Outcome<Site> {
        let outside = node.namespace_of(&format!("outside{number}"))?;
        // Of the range for benchmarks (RFC 2544).
        let [here, there] = [1, 2].map(|host| Ipv4Addr::new(198, 18, number, host));
        let link = format!("out{number}");
        let [left, right] = [here, there].map(|ip| [Ipv4Net::new_assert(ip, 24).into()]);
        let left = End {
            namespace: &node.namespace,
            link: &link,
            addresses: &left,
        };
        let right = End {
            namespace: &outside,
            link: "eth0",
            addresses: &right,
        };
        lab::connect(left, right)?;
        let pod = node.pod(&format!("served{number}"))?;
        let list = node.list(0, Version::V1_0_0)?;
        let port = HOST_PORT + u16::from(number);
        node.add(&list, &pod, &capabilities(port.into(), 1))?;
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);
        Ok(Site {
            outside,
            target: SocketAddr::new(here.into(), port),
            _server: pod.namespace().serve_tcp(any)?,
        })
    }

    /// Connections a second.
    fn count(&self) -> Outcome<f64> {
        let counted = self.outside.run(|| {
            let (mut count, began) = (0_u32, Instant::now());
            while began.elapsed() < COUNTED {
                ask(self.target)?;
                count += 1;
            }
            Ok(f64::from(count) / began.elapsed().as_secs_f64())
        })?;
        counted.map_err(|error: io::Error| format!("connect to {}: {error}", self.target).into())
    }
}

/// One connection, from its begin to its end.
fn ask(target: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&target, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}
