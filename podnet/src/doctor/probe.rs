//! Climbing the ladder: from inside a pod and from the node.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use lab::Namespace;
use node::ladder::{Climber, Rung, Step, Targets, ladder};
use node::{Case, Node};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Answer;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same where nobody need be there.
const SHORT: Duration = Duration::from_millis(300);

/// The node's own namespace.
const HERE: &str = "/proc/thread-self/ns/net";
/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";

/// Which pod climbs, and to whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Probe")]
pub struct Probe {
    /// Send pings from inside a pod, and from this node: to the pod itself, its gateway, another pod
    /// here, another node, that node's bridge, a pod there, and outside; POD is a namespace's path or
    /// name, a container's id, or an address
    #[arg(long = "probe", value_name = "POD")]
    pod: Option<String>,
    /// The other node [default: the plan's first]
    #[arg(long, value_name = "NODE", requires = "pod")]
    peer: Option<String>,
    /// A pod on the other node; may be repeated [default: the first addresses of its range]
    #[arg(long, value_name = "ADDRESS", requires = "pod")]
    peer_pod: Vec<IpAddr>,
    /// A host outside; may be repeated [default: this node's router]
    #[arg(long, value_name = "ADDRESS", requires = "pod")]
    outside: Vec<IpAddr>,
}

/// What a climb has brought.
#[derive(Debug)]
pub struct Climb {
    pod: String,
    /// The pod's loopback is down, so that it does not reach itself, whoever else does.
    is_mute: bool,
    rungs: Vec<(Rung, Answered)>,
}

/// Who answered: the target and the times, or nobody.
#[derive(Debug, Default)]
struct Answered {
    target: Option<IpAddr>,
    from_pod: Option<Result<Duration, String>>,
    from_node: Option<Result<Duration, String>>,
}

impl Probe {
    /// Climbs, where that is asked for.
    ///
    /// # Errors
    /// There is no such pod, or no such node.
    pub fn climb(&self, case: &Case) -> Result<Option<Climb>, Failure> {
        let Some(pod) = &self.pod else {
            return Ok(None);
        };
        let path = find(case.node, pod).ok_or_else(|| {
            let what =
                "a namespace's path or name, a container's id, or an address of one in the cache";
            Failure::Usage(format!(
                "--probe: {pod:?} is no pod of this node: expected {what}"
            ))
        })?;
        let inside = Namespace::open(&path).map_err(Failure::usage)?;
        let here =
            Namespace::open(Path::new(HERE)).map_err(|error| Failure::Failed(error.to_string()))?;
        let (climber, is_mute) = climber(&inside)?;
        let targets = Targets {
            peer: self.peer.clone(),
            peer_pods: self.peer_pod.clone(),
            outside: self.outside.clone(),
        };
        let rungs = ladder(case, &climber, &targets);
        let rungs = rungs.map_err(|reason| Failure::Usage(format!("--peer: {reason}")))?;
        Ok(Some(Climb {
            pod: path.display().to_string(),
            is_mute,
            rungs: climb(rungs, &inside, &here, is_mute),
        }))
    }
}

/// The namespace of a pod.
fn find(node: &Node, pod: &str) -> Option<PathBuf> {
    let address: Option<IpAddr> = pod.parse().ok();
    let attached = node.attachments.iter().flatten().find(|attached| {
        let known = &attached.known;
        let has = |ip: IpAddr| match &attached.netns {
            node::Netns::Open { addresses, .. } => addresses.iter().any(|own| own.net.addr() == ip),
            _ => false,
        };
        let named = known.attachment.container_id == pod || known.attachment.to_string() == pod;
        named || address.is_some_and(has)
    });
    let cached = attached.and_then(|attached| attached.known.netns.clone());
    let is_file = |path: &PathBuf| path.exists() && !path.is_dir();
    let by_path = || Some(PathBuf::from(pod)).filter(|path| path.is_absolute() && is_file(path));
    let by_name = || Some(Path::new(NAMESPACES).join(pod)).filter(is_file);
    cached.or_else(by_path).or_else(by_name)
}

/// The pod's addresses, and the next hops of its default routes; and whether its loopback is down.
fn climber(inside: &Namespace) -> Result<(Climber, bool), Failure> {
    let look = || -> Result<(Climber, bool), lab::Error> {
        let netlink = inside.netlink()?;
        let loopback = netlink.link("lo")?;
        let addresses = netlink.all_addresses()?;
        let global = addresses
            .iter()
            .filter(|(index, own)| own.global && *index != 1);
        let routes = netlink.tables()?;
        let default = routes
            .iter()
            .filter(|entry| entry.route.dst.prefix_len() == 0);
        let climber = Climber {
            addresses: global.map(|(_, own)| own.net.addr()).collect(),
            gateways: default.filter_map(|entry| entry.route.gateway).collect(),
        };
        Ok((climber, loopback.is_some_and(|link| !link.up)))
    };
    look().map_err(|error| Failure::Failed(format!("cannot look into the pod: {error}")))
}

/// Up to the first rung of a family that does not answer. What a pod without a loopback asks itself needs
/// no answer.
fn climb(
    rungs: Vec<Rung>,
    inside: &Namespace,
    here: &Namespace,
    is_mute: bool,
) -> Vec<(Rung, Answered)> {
    let mut climbed: Vec<(Rung, Answered)> = Vec::new();
    for rung in rungs {
        let stuck = climbed
            .iter()
            .any(|(other, answered)| other.ipv4 == rung.ipv4 && is_stuck(other, answered));
        if !stuck {
            let mut answered = ask(&rung, inside, here);
            if is_mute && rung.step == Step::Itself && matches!(answered.from_node, Some(Ok(_))) {
                answered.from_pod = None;
            }
            climbed.push((rung, answered));
        }
    }
    climbed
}

fn ask(rung: &Rung, inside: &Namespace, here: &Namespace) -> Answered {
    let patience = if rung.guessed { SHORT } else { PATIENCE };
    let ping = |from: &Namespace, target| {
        let answer = from.ping_within(target, patience);
        answer.map_err(|error| error.to_string())
    };
    let mut answered = Answered::default();
    for target in &rung.targets {
        answered = Answered {
            target: Some(*target),
            from_pod: Some(ping(inside, *target)),
            from_node: Some(ping(here, *target)),
        };
        if !is_silent(&answered) {
            break;
        }
    }
    answered
}

fn is_silent(answered: &Answered) -> bool {
    let ok = |answer: &Option<Result<Duration, String>>| matches!(answer, Some(Ok(_)));
    !ok(&answered.from_pod) && !ok(&answered.from_node)
}

/// Whether somebody should have answered. The node need not reach what the pod does.
fn is_stuck(rung: &Rung, answered: &Answered) -> bool {
    let itself = rung.step == Step::Itself;
    let pod = matches!(answered.from_pod, Some(Err(_)));
    let node = matches!(answered.from_node, Some(Err(_)));
    let guess = rung.guessed && is_silent(answered);
    !guess && (pod || (itself && node))
}

impl Climb {
    /// Whether every rung answered that was asked.
    pub fn is_up(&self) -> bool {
        self.stuck().next().is_none()
    }

    /// What a runtime sees to.
    fn warning(&self) -> Option<&'static str> {
        self.is_mute.then_some(
            "the pod's lo is down, so that it does not reach itself; a runtime sets it up (by hand: ip link set \
             lo up, in the pod's namespace)",
        )
    }

    fn stuck(&self) -> impl Iterator<Item = &(Rung, Answered)> {
        self.rungs
            .iter()
            .filter(|(rung, answered)| is_stuck(rung, answered))
    }

    /// As it is printed.
    pub fn answer(&self) -> Answer {
        let mut text = format!("pod={}\n", self.pod);
        let warning = self.warning();
        text.extend(warning.iter().map(|warning| format!("warning={warning}\n")));
        text.extend(
            self.rungs
                .iter()
                .map(|(rung, answered)| line(rung, answered)),
        );
        text.extend(self.stuck().map(|(rung, answered)| {
            let (step, family, means) = (rung.step.as_str(), family(rung), meaning(rung, answered));
            format!("stuck={step} family={family} means={means}\n")
        }));
        let rungs = self
            .rungs
            .iter()
            .map(|(rung, answered)| to_json(rung, answered));
        Answer {
            text,
            json: json!({ "pod": self.pod, "warning": warning, "rungs": rungs.collect::<Vec<_>>() }),
        }
    }
}

fn family(rung: &Rung) -> &'static str {
    if rung.ipv4 { "IPv4" } else { "IPv6" }
}

fn meaning(rung: &Rung, answered: &Answered) -> &'static str {
    rung.step.meaning(matches!(answered.from_node, Some(Ok(_))))
}

/// Why nobody was asked, or that none of the guesses is there.
fn skipped(rung: &Rung, answered: &Answered) -> Option<String> {
    if rung.guessed && is_silent(answered) {
        return Some(
            "no pod is at the first addresses of its range: name one (--peer-pod)".to_owned(),
        );
    }
    Some(rung.skipped.clone()).filter(|why| !why.is_empty())
}

fn line(rung: &Rung, answered: &Answered) -> String {
    let head = format!("rung={} family={}", rung.step.as_str(), family(rung));
    if let Some(why) = skipped(rung, answered) {
        return format!("{head} skipped={why}\n");
    }
    let target = answered
        .target
        .map_or(String::new(), |target| format!(" target={target}"));
    let told = |answer: &Option<Result<Duration, String>>| match answer {
        Some(Ok(time)) => format!("{:.2}ms", time.as_secs_f64() * 1000.0),
        _ => "no".to_owned(),
    };
    let (pod, node) = (told(&answered.from_pod), told(&answered.from_node));
    format!("{head}{target} pod={pod} node={node}\n")
}

fn to_json(rung: &Rung, answered: &Answered) -> Value {
    let told = |answer: &Option<Result<Duration, String>>| match answer {
        Some(Ok(time)) => json!({ "answered": true, "milliseconds": time.as_secs_f64() * 1000.0 }),
        Some(Err(why)) => json!({ "answered": false, "why": why }),
        None => Value::Null,
    };
    let stuck = is_stuck(rung, answered);
    json!({
        "rung": rung.step.as_str(),
        "family": family(rung),
        "target": answered.target,
        "pod": told(&answered.from_pod),
        "node": told(&answered.from_node),
        "skipped": skipped(rung, answered),
        "stuck": stuck,
        "means": stuck.then(|| meaning(rung, answered)),
    })
}
