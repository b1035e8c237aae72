//! Kubernetes' quantities (apimachinery, `resource.Quantity`): `1M`, `500k`, `1.5Gi`, `2e6`.

/// A quantity, rounded up to a whole number as Kubernetes rounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// How far from zero; the largest number stands for all that are larger.
    magnitude: u128,
    negative: bool,
}

/// Suffixes and what each multiplies by: a power of ten, or of 1024.
const SUFFIXES: [(&str, Factor); 16] = [
    ("n", Factor::Ten(-9)),
    ("u", Factor::Ten(-6)),
    ("m", Factor::Ten(-3)),
    ("", Factor::Ten(0)),
    ("k", Factor::Ten(3)),
    ("M", Factor::Ten(6)),
    ("G", Factor::Ten(9)),
    ("T", Factor::Ten(12)),
    ("P", Factor::Ten(15)),
    ("E", Factor::Ten(18)),
    ("Ki", Factor::Kibi(1)),
    ("Mi", Factor::Kibi(2)),
    ("Gi", Factor::Kibi(3)),
    ("Ti", Factor::Kibi(4)),
    ("Pi", Factor::Kibi(5)),
    ("Ei", Factor::Kibi(6)),
];

#[derive(Debug, Clone, Copy)]
enum Factor {
    Ten(i32),
    Kibi(u32),
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Quantity, String> {
        Self::read(text).ok_or_else(|| {
            format!(
                "{text:?} is no quantity: expected a number, then k, M, G, T, P, Ki, Mi, …, as 10M"
            )
        })
    }

    fn read(text: &str) -> Option<Quantity> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let known = SUFFIXES.iter().find(|(name, _)| *name == suffix);
        let factor = match known {
            Some((_, factor)) => *factor,
            None => Factor::Ten(exponent(suffix)?),
        };
        let magnitude = value(whole, fraction, factor);
        Some(Quantity {
            magnitude,
            negative: negative && magnitude > 0,
        })
    }

    /// The number itself, where it is none below zero.
    pub fn whole(self) -> Option<u128> {
        (!self.negative).then_some(self.magnitude)
    }

    /// Whether it is between two whole numbers, both included.
    pub fn is_within(self, least: u128, most: u128) -> bool {
        !self.negative && (least..=most).contains(&self.magnitude)
    }
}

/// `e3`, `E-2`.
fn exponent(suffix: &str) -> Option<i32> {
    let number = suffix.strip_prefix(['e', 'E'])?;
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let all_digits = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    // Beyond this it is zero or more than any number here.
    const FAR: i32 = 1000;
    let parsed = number.parse::<i32>().unwrap_or(FAR);
    let far = if number.starts_with('-') { -FAR } else { FAR };
    all_digits.then(|| if parsed.abs() > FAR { far } else { parsed })
}

/// The number times its factor, rounded up.
fn value(whole: &str, fraction: &str, factor: Factor) -> u128 {
    let (times, shift) = match factor {
        Factor::Ten(exponent) => (1, exponent),
        Factor::Kibi(power) => (1024_u128.saturating_pow(power), 0),
    };
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let Ok(number) = digits.parse::<u128>() else {
        return long(whole, shift);
    };
    let number = number.saturating_mul(times);
    let shift = shift.saturating_sub(places);
    let power = 10_u128.checked_pow(shift.unsigned_abs());
    match (shift < 0, power) {
        (false, power) => power.map_or(u128::MAX, |power| number.saturating_mul(power)),
        // Rounded up, so something is left of it.
        (true, None) => 1,
        (true, Some(power)) => number.div_ceil(power),
    }
}

/// More digits than a number holds: those of the fraction only round up.
fn long(whole: &str, shift: i32) -> u128 {
    let whole = whole.trim_start_matches('0').parse::<u128>();
    match whole {
        Ok(whole) if shift >= 0 => 10_u128
            .checked_pow(shift.unsigned_abs())
            .map_or(u128::MAX, |power| whole.saturating_mul(power))
            .saturating_add(1),
        Ok(whole) => whole.saturating_add(1),
        Err(error) if *error.kind() == std::num::IntErrorKind::Empty => 1,
        Err(_) => u128::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar() {
        for (text, magnitude) in [
            ("1M", 1_000_000),
            ("500k", 500_000),
            ("1.5G", 1_500_000_000),
            ("+2", 2),
            (".5k", 500),
            ("1.", 1),
            ("0", 0),
            ("00012", 12),
            ("1Ki", 1024),
            ("1.5Mi", 1_572_864),
            ("1E", 1_000_000_000_000_000_000),
            ("1E3", 1000),
            ("2e6", 2_000_000),
            ("15e-1", 2),
            ("1m", 1),
            ("1n", 1),
            ("1001m", 2),
            ("1P", 1_000_000_000_000_000),
            ("1e999999999999", u128::MAX),
            ("1e-99999999", 1),
            ("0e99999", 0),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!(
                (quantity.magnitude, quantity.negative),
                (magnitude, false),
                "{text}"
            );
        }
        assert!(Quantity::parse("-1M").unwrap().negative);
        assert!(!Quantity::parse("-0").unwrap().negative);
    }

    #[test]
    fn digits_without_end() {
        let of = |text: &str| Quantity::parse(text).unwrap().magnitude;
        let nines = "9".repeat(60);
        assert_eq!(of(&nines), u128::MAX);
        assert_eq!(of(&format!("1.{nines}k")), 1001);
        assert_eq!(of(&format!("0.{nines}")), 1);
    }

    #[test]
    fn what_is_no_quantity() {
        for text in [
            "", "M", "1 M", "1m3", "1Mb", "1.2.3", "1Mbit", "ten", "1K", "1e", "1e+", "--1", "1,5",
            "٣",
        ] {
            let error = Quantity::parse(text).unwrap_err();
            assert!(error.contains("is no quantity"), "{text}: {error}");
        }
    }

    #[test]
    fn bounds() {
        let within = |text: &str| {
            Quantity::parse(text)
                .unwrap()
                .is_within(1000, 1_000_000_000_000_000)
        };
        for (text, expected) in [
            ("1k", true),
            ("999", false),
            ("1P", true),
            ("1001T", false),
            ("-1M", false),
        ] {
            assert_eq!(within(text), expected, "{text}");
        }
    }
}
