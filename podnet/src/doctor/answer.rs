//! Findings as they are printed.

use node::{Finding, Node, Report, Site};
use serde_json::{Value, json};

use super::fix::Fixed;
use crate::output::Answer;

/// All that was found, mended, not read and left out.
pub fn of(node: &Node, site: Option<&Site>, report: &Report, fixed: &[Fixed]) -> Answer {
    let name = site.map_or(node.host.as_str(), |site| site.name.as_str());
    let mut text = String::new();
    text.extend(fixed.iter().map(|step| format!("{}\n", fixed_line(step))));
    text.extend(report.findings.iter().map(paragraph));
    text.extend(
        report
            .unread
            .iter()
            .map(|unread| line("unread", &unread.to_string())),
    );
    if !report.left_out.is_empty() {
        text.push_str(&format!(
            "left_out={} (no cluster was told)\n",
            report.left_out.join(",")
        ));
    }
    text.push_str(&format!(
        "node={name}\nfindings={}\n",
        report.findings.len()
    ));
    let unread = report.unread.iter();
    let unread = unread.map(|unread| json!({ "what": unread.what, "why": unread.why }));
    Answer {
        text,
        json: json!({
            "node": name,
            "fixed": fixed.iter().map(fixed_json).collect::<Vec<_>>(),
            "findings": report.findings.iter().map(to_json).collect::<Vec<_>>(),
            "unread": unread.collect::<Vec<_>>(),
            "leftOut": report.left_out,
        }),
    }
}

/// A finding as lines, and an empty one behind them.
fn paragraph(finding: &Finding) -> String {
    let head = format!("finding={}\nseverity={}\n", finding.id, finding.severity);
    let head = head + &line("breaks", &finding.breaks);
    let evidence = finding.evidence.iter().map(|text| line("evidence", text));
    let mend = finding.mend.iter().map(|text| line("mend", text));
    head + &evidence.chain(mend).collect::<String>() + "\n"
}

/// Names that others have given may have line feeds in them.
fn line(key: &str, text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    format!("{key}={text}\n")
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "severity": finding.severity.to_string(),
        "breaks": finding.breaks,
        "evidence": finding.evidence,
        "mend": finding.mend,
        "fixable": !finding.fixes.is_empty(),
    })
}

fn fixed_line(step: &Fixed) -> String {
    match &step.failed {
        None => format!("fixed={}", step.command),
        Some(why) => format!("not_fixed={}: {why}", step.command),
    }
}

fn fixed_json(step: &Fixed) -> Value {
    json!({ "command": step.command, "failed": step.failed })
}
