//! host-local alone, with many reservations.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use cni::Command;
use serde_json::{Map, Value};

use super::Bench;
use crate::asked::host_local;
use crate::node::{Node, milliseconds};
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules};

const ROUNDS: u32 = 10;

/// The range's network address; the one after it is the gateway's.
const RANGE: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for reservations in bench.numbers(&[0, 1000, 10_000, 60_000], &[0, 100]) {
        bench
            .progress
            .begin(&format!("store with {reservations} reservations"));
        // It makes no rules; what is given for them is not looked at.
        let nodes = bench.nodes(Rules::IptablesNft)?;
        let mut runners = Vec::new();
        for node in &nodes {
            reserve(&node.data().join("bench"), reservations)?;
            runners.push(runner(node)?);
        }
        let rounds = bench.options.rounds_of(ROUNDS);
        let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
        let subject = Subject {
            at: Some(reservations),
            ..Subject::of(Case::Store)
        };
        rows.extend(subject.rows(Unit::Milliseconds, measured));
    }
    Ok(rows)
}

/// ADD, and CHECK and DEL with its result, as a runtime hands it on.
fn runner(node: &Node) -> Outcome<Runner<'_>> {
    let conf = node.pod("pod")?.conf(&Map::new());
    let config = host_local(&node.data());
    let call = move |command: Command, config: &Value| -> Outcome<(Sample, Vec<u8>)> {
        let text = config.to_string();
        let mut printed = Vec::new();
        let took = node.time(command.as_str(), || {
            let called = node
                .runtime
                .call(command, "host-local", text.as_bytes(), &conf);
            printed = called?;
            Ok(())
        })?;
        let sample = (command.as_str().to_owned(), milliseconds(took));
        Ok((sample, printed))
    };
    Ok(Runner::new(node.side, move || {
        let mut config = config.clone();
        let (add, result) = call(Command::Add, &config)?;
        config["prevResult"] = serde_json::from_slice(&result)?;
        let (check, _) = call(Command::Check, &config)?;
        let (del, _) = call(Command::Del, &config)?;
        Ok(vec![add, check, del])
    }))
}

/// Writes so many reservations as both write them, and how far the range was given out.
fn reserve(store: &Path, count: u32) -> Outcome<()> {
    fs::create_dir_all(store)?;
    let first = RANGE.to_bits() + 2;
    for number in 0..count {
        let file = store.join(Ipv4Addr::from_bits(first + number).to_string());
        fs::write(file, format!("{number:064x}\r\neth0"))?;
    }
    if let Some(last) = count.checked_sub(1) {
        let last = Ipv4Addr::from_bits(first + last).to_string();
        fs::write(store.join("last_reserved_ip.0"), last)?;
    }
    Ok(())
}
