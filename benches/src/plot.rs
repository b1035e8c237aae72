//! What a pod costs when many are on the node, drawn: a panel for each verb and way to make rules.

use std::fmt::Write;

use crate::row::Row;
use crate::statistics::median;
use crate::{Case, Report, Rules, Side};

/// The verbs, from top to bottom.
const VERBS: [&str; 2] = ["ADD", "DEL"];

/// In the order of the legend.
const SIDES: [Side; 3] = [Side::Ours, Side::Theirs, Side::Floor];

/// A panel's inner size, and what is left free beside and below it.
const WIDTH: f64 = 250.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 90.0;
const GAP: (f64, f64) = (50.0, 70.0);

const STYLE: &str = "
svg { --paper: #ffffff; --ink: #1b1f24; --faint: #59636e; --line: #d5dbe1;
  --ours: #1f6feb; --theirs: #bc4c00; --floor: #57606a; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0f1318; --ink: #e6edf3; --faint: #9aa5b1; --line: #2d353e;
    --ours: #58a6ff; --theirs: #f0883e; --floor: #b1bac4; }
}
.paper { fill: var(--paper); }
text { fill: var(--ink); font: 12px system-ui, sans-serif; }
text.title { font-size: 16px; font-weight: 600; }
text.panel { font-weight: 600; }
text.tick { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--line); }
.ours, .theirs, .floor { fill: none; stroke-width: 2; }
.ours { stroke: var(--ours); }
.theirs { stroke: var(--theirs); stroke-dasharray: 7 4; }
.floor { stroke: var(--floor); stroke-dasharray: 2 3; }
circle.ours { fill: var(--ours); stroke: none; }
circle.theirs { fill: var(--theirs); stroke: none; }
circle.floor { fill: var(--floor); stroke: none; }
";

/// One line: the median time in ms at each number of pods.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    verb: &'static str,
    rules: Rules,
    side: Side,
    points: Vec<(u32, f64)>,
}

/// The drawing; `None` where the case was not measured.
pub fn svg(report: &Report) -> Option<String> {
    let lines = lines(&report.rows);
    let times = lines.iter().flat_map(|line| &line.points);
    let scale = Scale::of(times)?;
    let columns: Vec<_> = Rules::ALL
        .into_iter()
        .filter(|rules| lines.iter().any(|line| line.rules == *rules))
        .collect();
    let mut panels = String::new();
    let mut left = LEFT;
    for rules in &columns {
        let mut top = TOP;
        for verb in VERBS {
            let mine = lines
                .iter()
                .filter(|line| line.verb == verb && line.rules == *rules);
            panel(
                &mut panels,
                &scale,
                (left, top),
                &format!("{verb}, {}", rules.name()),
                mine,
            )?;
            top += HEIGHT + GAP.1;
        }
        left += WIDTH + GAP.0;
    }
    let (width, height) = (left, TOP + 2.0 * (HEIGHT + GAP.1) - 10.0);
    let legend = legend(&lines);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"title\">\n<title id=\"title\">What one pod more costs, in ms, by the pods \
         on the node</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"30\">One pod more: median in ms, by the pods on the \
         node</text>\n{legend}{panels}</svg>\n"
    ))
}

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|row| row.subject.case == Case::Pods) {
        let verb = VERBS.into_iter().find(|verb| *verb == row.what);
        let (Some(verb), Some(rules), Some(at)) = (verb, row.subject.rules, row.subject.at) else {
            continue;
        };
        for (side, series) in &row.series {
            let Some(time) = median(series) else {
                continue;
            };
            let same =
                |line: &&mut Line| (line.verb, line.rules, line.side) == (verb, rules, *side);
            match lines.iter_mut().find(same) {
                Some(line) => line.points.push((at, time)),
                None => lines.push(Line {
                    verb,
                    rules,
                    side: *side,
                    points: vec![(at, time)],
                }),
            }
        }
    }
    lines
}

/// Pods to the right, times upwards by powers of ten; the same in all panels.
#[derive(Debug, Clone, PartialEq)]
struct Scale {
    pods: Vec<u32>,
    /// Powers of ten of the lowest and of the highest line of the grid.
    powers: (i32, i32),
}

impl Scale {
    fn of<'a>(points: impl Iterator<Item = &'a (u32, f64)>) -> Option<Scale> {
        let points: Vec<_> = points.filter(|(_, time)| *time > 0.0).collect();
        let mut pods: Vec<u32> = points.iter().map(|(pods, _)| *pods).collect();
        pods.sort_unstable();
        pods.dedup();
        let times = points.iter().map(|(_, time)| *time);
        let (low, high) = (times.clone().reduce(f64::min)?, times.reduce(f64::max)?);
        let power = |time: f64, above: bool| {
            (-9..=9).find(|power| match above {
                true => 10_f64.powi(*power) >= time,
                false => 10_f64.powi(*power + 1) > time,
            })
        };
        let lowest = power(low, false)?;
        Some(Scale {
            pods,
            powers: (lowest, power(high, true)?.max(lowest + 1)),
        })
    }

    fn x(&self, pods: u32) -> f64 {
        let most = self.pods.last().copied().unwrap_or_default().max(1);
        WIDTH * f64::from(pods) / f64::from(most)
    }

    fn y(&self, time: f64) -> f64 {
        let (low, high) = (f64::from(self.powers.0), f64::from(self.powers.1));
        HEIGHT * (high - time.log10()) / (high - low)
    }
}

fn panel<'a>(
    out: &mut String,
    scale: &Scale,
    (left, top): (f64, f64),
    name: &str,
    lines: impl Iterator<Item = &'a Line>,
) -> Option<()> {
    writeln!(out, "<g transform=\"translate({left} {top})\">").ok()?;
    writeln!(out, "<text class=\"panel\" y=\"-10\">{name}</text>").ok()?;
    for power in scale.powers.0..=scale.powers.1 {
        let (time, y) = (10_f64.powi(power), scale.y(10_f64.powi(power)));
        writeln!(
            out,
            "<path class=\"grid\" d=\"M0 {y:.1}H{WIDTH}\"/>\
             <text class=\"tick\" x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{time}</text>",
            y + 4.0
        )
        .ok()?;
    }
    for pods in &scale.pods {
        let x = scale.x(*pods);
        writeln!(
            out,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{pods}</text>",
            HEIGHT + 18.0
        )
        .ok()?;
    }
    for line in lines {
        let side = line.side.name();
        let at = |(pods, time): &(u32, f64)| (scale.x(*pods), scale.y(*time));
        let path: Vec<_> = line.points.iter().map(at).collect();
        let words: Vec<_> = path.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        writeln!(out, "<path class=\"{side}\" d=\"M{}\"/>", words.join("L")).ok()?;
        for ((x, y), (pods, time)) in path.iter().zip(&line.points) {
            writeln!(
                out,
                "<circle class=\"{side}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\">\
                 <title>{side}: {time:.1} ms with {pods} pods</title></circle>"
            )
            .ok()?;
        }
    }
    writeln!(out, "</g>").ok()
}

/// Who is drawn how.
fn legend(lines: &[Line]) -> String {
    let there = |side: &Side| lines.iter().any(|line| line.side == *side);
    let mut x = LEFT;
    let mut legend = String::new();
    for side in SIDES.into_iter().filter(there) {
        let name = side.name();
        legend.push_str(&format!(
            "<path class=\"{name}\" d=\"M{x} 52h34\"/><text x=\"{}\" y=\"56\">{name}</text>\n",
            x + 40.0
        ));
        x += 110.0;
    }
    legend
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Unit;
    use crate::report::tests::report;
    use crate::row::Subject;

    fn row(at: u32, what: &str, series: &[(Side, f64)]) -> Row {
        let series = series.iter().map(|(side, time)| (*side, vec![*time]));
        Row {
            subject: Subject {
                case: Case::Pods,
                rules: Some(Rules::Nftables),
                at: Some(at),
            },
            what: what.to_owned(),
            unit: Unit::Milliseconds,
            series: series.collect::<BTreeMap<_, _>>(),
        }
    }

    #[test]
    fn a_line_for_each_contender() {
        let rows = [
            row(0, "ADD", &[(Side::Ours, 9.0), (Side::Theirs, 120.0)]),
            row(0, "CHECK", &[(Side::Ours, 9.0)]),
            row(1000, "ADD", &[(Side::Ours, 20.0), (Side::Theirs, 350.0)]),
        ];
        let lines = lines(&rows);
        let points: Vec<_> = lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(
            points,
            [[(0, 9.0), (1000, 20.0)], [(0, 120.0), (1000, 350.0)]]
        );
        let mut report = report();
        report.rows = rows.to_vec();
        let svg = svg(&report).unwrap();
        assert_eq!(svg.matches("<circle class=\"ours\"").count(), 2);
        assert_eq!(svg.matches("<circle class=\"theirs\"").count(), 2);
        assert!(svg.contains("theirs: 350.0 ms with 1000 pods"));
        assert!(!svg.contains("class=\"floor\" d=") && !svg.contains("NaN"));
    }

    #[test]
    fn the_scale_holds_all_values() {
        let points = [(0, 9.0), (1000, 350.0)];
        let scale = Scale::of(points.iter()).unwrap();
        assert_eq!(scale.powers, (0, 3));
        assert_eq!((scale.x(0), scale.x(1000)), (0.0, WIDTH));
        assert!((scale.y(1.0) - HEIGHT).abs() < 1e-9 && scale.y(1000.0).abs() < 1e-9);
        assert!(scale.y(350.0) < scale.y(9.0));
        assert_eq!(Scale::of([(0, 10.0)].iter()).unwrap().powers, (1, 2));
        assert_eq!(Scale::of([].iter()), None);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let mut report = report();
        report.rows.clear();
        assert_eq!(svg(&report), None);
    }
}
