//! Sizes of the binaries.

use std::collections::BTreeMap;

use super::Bench;
use crate::contender::PLUGINS;
use crate::rounds::Measured;
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row};

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut measured = Vec::new();
    for plugin in PLUGINS {
        let mut series = BTreeMap::new();
        for contender in bench.contenders() {
            let bytes = contender.file(plugin)?.metadata()?.len();
            series.insert(contender.side, vec![bytes as f64 / 1024.0]);
        }
        measured.push(Measured {
            what: plugin.to_owned(),
            series,
        });
    }
    Ok(Subject::of(Case::Sizes).rows(Unit::Kilobytes, measured))
}
