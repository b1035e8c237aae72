//! `podnet agent` beside Kubernetes itself, killed at moments of chance while nodes come, change and go.
//! `CLUSTER_SEED` repeats a run.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tests::{
    Agent, Pings, Plane, Segment, agent_routes, kubernetes_node, pods_that_ping, registered,
    routes_to, sh, soon, soon_or_later,
};

/// How often it is killed.
const KILLS: usize = 30;

/// Parses a file again and again: at no time may it be half there, or gone.
struct Reader {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn of(file: &Path) -> Reader {
        let (stop, looks) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (ended, count, file) = (Arc::clone(&stop), Arc::clone(&looks), file.to_owned());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let text = fs::read(&file).unwrap();
                let list = serde_json::from_slice(&text);
                let list: Value = list.unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                assert!(
                    list["plugins"][0]["ipam"].is_object(),
                    "half a conflist: {text}"
                );
                count.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(1));
            }
        });
        Reader {
            stop,
            looks,
            thread,
        }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.looks.load(Ordering::Relaxed)
    }
}

/// Nodes that come, change and go, as they should be.
#[derive(Default)]
struct Others(BTreeMap<u8, u8>);

impl Others {
    /// One change, by chance.
    fn step(&mut self, plane: &Plane, rng: &mut Rng) {
        let (number, host) = (rng.u8(100..120), rng.u8(20..200));
        let name = format!("other{number}");
        let address = format!("192.168.199.{host}");
        if self.0.values().any(|taken| *taken == host) {
            return;
        }
        match self.0.get(&number) {
            None => {
                let range = format!("10.200.{number}.0/24");
                plane.create(&kubernetes_node(&name, &[&range], &[&address]));
                self.0.insert(number, host);
            }
            Some(_) if rng.bool() => {
                plane.readdress(&name, &[&address]);
                self.0.insert(number, host);
            }
            Some(_) => {
                plane.delete(&name);
                self.0.remove(&number);
            }
        }
    }

    fn routes(&self, more: (&str, &str)) -> Vec<String> {
        let all = self.0.iter();
        let all = all.map(|(number, host)| {
            (
                format!("10.200.{number}.0/24"),
                format!("192.168.199.{host}"),
            )
        });
        let all: Vec<_> = all.collect();
        let mut all: Vec<(&str, &str)> =
            all.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        all.push(more);
        routes_to(&all)
    }
}

#[test]
fn one_that_is_killed_at_any_moment_loses_nothing() {
    let Some(segment) = Segment::new("agent-cluster-killed") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    let seed = std::env::var("CLUSTER_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("CLUSTER_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    (0..2).for_each(|number| plane.create(&registered(number)));
    soon_or_later(|| (0..2).all(|n| plane.range_of(&format!("k8sworker{n}")).is_some()));
    let to_second = plane.range_of("k8sworker1").unwrap();
    let start = |number: usize| {
        let node = &segment.nodes[number];
        let (name, data) = (format!("k8sworker{number}"), node.data.to_string_lossy());
        Agent::start_as(
            node,
            &name,
            &plane.path("agent.conf"),
            &["--data-dir", &data],
        )
    };
    let mut agent = start(0);
    let beside = start(1);
    let pings = pods_that_ping(&segment.nodes, [&agent, &beside]);
    let file = segment.nodes[0].configurations().join("10-podnet.conflist");
    let reader = Reader::of(&file);
    let mut others = Others::default();
    let mut longest = Duration::ZERO;
    for kill in 0..KILLS {
        // While it begins, lists, writes or waits.
        let after = Duration::from_millis(rng.u64(0..1500));
        let begun = Instant::now();
        while begun.elapsed() < after {
            others.step(&plane, &mut rng);
        }
        agent.kill();
        others.step(&plane, &mut rng);
        if rng.bool() {
            // Another MTU is another conflist.
            let mtu = rng.u32(1300..1500);
            sh(
                &segment.nodes[0].namespace,
                &format!("ip link set eth0 mtu {mtu}"),
            );
        }
        let started = Instant::now();
        agent = start(0);
        // Some are killed again before all is right.
        if rng.u8(0..3) == 0 {
            continue;
        }
        let expected = others.routes((&to_second, "192.168.199.211"));
        let routes = || agent_routes(&segment.nodes[0].namespace);
        soon(
            || routes() == expected,
            || format!("kill {kill}: {:#?}\n{expected:#?}", routes()),
        );
        longest = longest.max(started.elapsed());
    }
    let expected = others.routes((&to_second, "192.168.199.211"));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    agent.routes(&expected);
    let looks = reader.end();
    let sent = pings.map(Pings::expect_none_lost);
    println!(
        "{KILLS} kills, right again within {longest:?}; pings: {sent:?}, none lost; {looks} looks at a whole conflist"
    );
}
