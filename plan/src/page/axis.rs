//! Where an address is on the page.

/// The width of a drawing.
pub(super) const WIDTH: f64 = 1000.0;
/// The width of what stands for addresses that nobody has.
pub(super) const GAP: f64 = 18.0;

/// Addresses from left to right, all to one scale; long stretches that nobody has are left out, with a
/// gap in their place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Stretches in their order: first address, last address, and where the first is drawn.
    stretches: Vec<(u128, u128, f64)>,
    /// The width of one address.
    unit: f64,
}

impl Axis {
    /// The axis of ranges, given by their first and last addresses.
    pub(super) fn new(mut ranges: Vec<(u128, u128)>) -> Axis {
        ranges.sort_unstable();
        let mut stretches: Vec<(u128, u128)> = Vec::new();
        for (first, last) in ranges {
            match stretches.last_mut() {
                // Also where one begins right behind the other.
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => stretches.push((first, last)),
            }
        }
        let gaps = GAP * as_float(stretches.len().saturating_sub(1) as u128);
        let sizes = stretches.iter().map(|(first, last)| count(*first, *last));
        let all: f64 = sizes.sum();
        let unit = if all > 0.0 {
            (WIDTH - gaps).max(WIDTH / 2.0) / all
        } else {
            0.0
        };
        let mut x = 0.0;
        let place = |(first, last)| {
            let at = x;
            x += count(first, last) * unit + GAP;
            (first, last, at)
        };
        Axis {
            stretches: stretches.into_iter().map(place).collect(),
            unit,
        }
    }

    /// Where a range is drawn, and how wide: in proportion to its addresses.
    pub(super) fn place(&self, first: u128, last: u128) -> (f64, f64) {
        let mut stretches = self.stretches.iter();
        let around = stretches.find(|(from, to, _)| (*from..=*to).contains(&first));
        let (from, _, at) = around.copied().unwrap_or_default();
        let x = at + as_float(first.saturating_sub(from)) * self.unit;
        (x, count(first, last) * self.unit)
    }

    /// The middles of the gaps.
    pub(super) fn gaps(&self) -> impl Iterator<Item = f64> {
        let later = self.stretches.iter().skip(1);
        later.map(|(_, _, at)| at - GAP / 2.0)
    }
}

fn count(first: u128, last: u128) -> f64 {
    as_float(last.saturating_sub(first)) + 1.0
}

#[allow(
    clippy::cast_precision_loss,
    reason = "rounded, as is all that is drawn"
)]
fn as_float(number: u128) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_in_proportion_and_gaps_are_not() {
        let axis = Axis::new(vec![(1_000_000, 1_000_299), (0, 99), (100, 199), (50, 60)]);
        let (left, first) = axis.place(0, 99);
        let (right, third) = axis.place(1_000_000, 1_000_299);
        assert_eq!(left, 0.0);
        assert!((third / first - 3.0).abs() < 1e-9);
        assert!((right - (first * 2.0 + GAP)).abs() < 1e-9);
        assert!((right + third - WIDTH).abs() < 1e-9);
        assert_eq!(axis.gaps().count(), 1);
        let (inner, width) = axis.place(50, 59);
        assert!((inner - first / 2.0).abs() < 1e-9 && (width - first / 10.0).abs() < 1e-9);
    }

    #[test]
    fn whole_families() {
        let axis = Axis::new(vec![(0, u128::MAX)]);
        assert_eq!(axis.place(0, u128::MAX), (0.0, WIDTH));
        assert_eq!(axis.place(1 << 127, u128::MAX), (WIDTH / 2.0, WIDTH / 2.0));
        assert_eq!(Axis::new(Vec::new()).place(0, 9), (0.0, 0.0));
    }
}
