//! What a series of values comes to.

use serde::Serialize;

/// A series in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many values there are.
    pub count: usize,
    /// The least of them.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// Half of them are below it.
    pub median: f64,
    /// 95 of a hundred are at most that.
    pub p95: f64,
    /// How far the middle half of the values is apart, as a part of the median.
    pub spread: f64,
}

impl Summary {
    /// Of these values, in any order; `None` of none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let median = median(&sorted)?;
        let quartiles = (percentile(&sorted, 75)?, percentile(&sorted, 25)?);
        let apart = quartiles.0 - quartiles.1;
        Some(Summary {
            count: sorted.len(),
            least: *sorted.first()?,
            greatest: *sorted.last()?,
            median,
            p95: percentile(&sorted, 95)?,
            spread: if apart > 0.0 { apart / median } else { 0.0 },
        })
    }
}

/// The value that so many of a hundred do not exceed, by the nearest rank; `None` of no values.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (sorted.len() * percent.min(100)).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The median; `None` of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(middle.checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// How `one` compares with `other` by `compare`: the median over the rounds where both have as many,
/// which takes out what came over both in a round; else that of their medians.
pub fn compare(one: &[f64], other: &[f64], compare: impl Fn(f64, f64) -> f64) -> Option<f64> {
    if one.len() != other.len() {
        return Some(compare(median(one)?, median(other)?));
    }
    let pairs = one.iter().zip(other);
    let all: Vec<_> = pairs.map(|(one, other)| compare(*one, *other)).collect();
    median(&all)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(one: f64, other: f64) -> f64 {
        other / one
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_values_that_were_there() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let of_hundred = [1, 50, 95, 99, 100].map(|percent| percentile(&hundred, percent));
        assert_eq!(of_hundred, [1.0, 50.0, 95.0, 99.0, 100.0].map(Some));
        let few = [0, 25, 75, 95].map(|percent| percentile(&[4.0, 1.0, 3.0, 2.0], percent));
        assert_eq!(few, [1.0, 1.0, 3.0, 4.0].map(Some));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_summary() {
        let summary = Summary::of(&[10.0, 40.0, 20.0, 30.0]).unwrap();
        let expected = Summary {
            count: 4,
            least: 10.0,
            greatest: 40.0,
            median: 25.0,
            p95: 40.0,
            spread: 0.8,
        };
        assert_eq!(summary, expected);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[0.0]).unwrap().spread, 0.0);
    }

    #[test]
    fn rounds_that_were_slow_for_both_do_not_count() {
        assert_eq!(
            compare(&[1.0, 100.0, 2.0], &[3.0, 300.0, 6.0], ratio),
            Some(3.0)
        );
        assert_eq!(compare(&[1.0, 2.0, 3.0], &[4.0], ratio), Some(2.0));
        assert_eq!(compare(&[1.0], &[], ratio), None);
    }
}
