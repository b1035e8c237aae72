//! Instructions of a plugin's own: a number that hardly depends on the machine, and on what else it is
//! at not at all.

use std::sync::Arc;

use cni::runtime::RuntimeConf;
use cni::{Command, Version};
use serde_json::{Map, json};

use super::Bench;
use crate::asked::host_local;
use crate::counted::Callgrind;
use crate::node::Node;
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules};

/// Of ours alone: what callgrind is to tell is whether they have become slower, and it does not run
/// every program.
pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    bench.progress.begin("instructions");
    // No rules are made; what is given for them is not looked at.
    let mut node = Node::new(&bench.ours, Rules::Nftables)?;
    let Some(callgrind) = Callgrind::new(node.folder()) else {
        bench.skip("instructions", "valgrind is not installed");
        return Ok(Vec::new());
    };
    let callgrind = Arc::new(callgrind);
    node.runtime.exec = callgrind.clone();
    let conf = node.pod("pod")?.conf(&Map::new());
    let runner = Runner::new(node.side, || count(&node, &callgrind, &conf));
    let measured = in_turn(&mut [runner], 1, &mut bench.progress)?;
    Ok(Subject::of(Case::Instructions).rows(Unit::Count, measured))
}

fn count(node: &Node, callgrind: &Callgrind, conf: &RuntimeConf) -> Outcome<Vec<Sample>> {
    let counted = |what: &str, command: Command, plugin: &str, config: String| {
        let call = || node.runtime.call(command, plugin, config.as_bytes(), conf);
        node.time(what, || call().map(drop))?;
        Ok((what.to_owned(), callgrind.last() as f64))
    };
    let version = json!({ "cniVersion": Version::V1_0_0.as_str() }).to_string();
    let config = host_local(&node.data()).to_string();
    [
        ("VERSION bridge", Command::Version, "bridge", version),
        ("ADD host-local", Command::Add, "host-local", config.clone()),
        ("DEL host-local", Command::Del, "host-local", config),
    ]
    .into_iter()
    .map(|(what, command, plugin, config)| counted(what, command, plugin, config))
    .collect()
}
