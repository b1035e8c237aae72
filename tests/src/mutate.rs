//! Inputs gone wrong: variants of good ones, the same in every run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fastrand::Rng;
use serde_json::{Value, json};

/// In letters of one byte. The kernel takes at most 32 pages (`MAX_ARG_STRLEN`).
const LONGEST_VARIABLE: usize = 100_000;

/// Makes variants. Two of one seed make the same ones.
#[derive(Debug)]
pub struct Mutator(Rng);

impl Mutator {
    /// From a seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator(Rng::with_seed(seed))
    }

    /// One of several.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.0.usize(..from.len())]
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.0.usize(..times) == 0
    }

    /// A configuration as bytes, with up to four values spoiled, and sometimes its text too.
    pub fn config(&mut self, good: &Value) -> Vec<u8> {
        let mut config = good.clone();
        for _ in 0..self.0.usize(..=4) {
            self.spoil(&mut config);
        }
        let text = config.to_string();
        match self.0.usize(..10) {
            0 => self.spoiled_bytes(text.into_bytes()),
            1 => self.spoiled_text(text).into_bytes(),
            _ => text.into_bytes(),
        }
    }

    /// A variable's value: nothing, too much, or no text at all.
    pub fn variable(&mut self, good: &str) -> OsString {
        let text = match self.0.usize(..6) {
            0 => String::new(),
            1 => "x".repeat(LONGEST_VARIABLE),
            2 => self.tweaked(good),
            3 => good.to_lowercase(),
            4 => (*self.pick(&TEXTS)).to_owned(),
            _ => return OsString::from_vec(vec![b'/', 0xff, 0xfe, b'=', b';']),
        };
        let letters = text.chars().filter(|letter| *letter != '\0');
        letters.take(LONGEST_VARIABLE).collect::<String>().into()
    }

    /// Changes one value somewhere inside.
    fn spoil(&mut self, value: &mut Value) {
        let mut pointers = Vec::new();
        collect(value, String::new(), &mut pointers);
        let pointer: &String = self.pick(&pointers);
        let other: &String = self.pick(&pointers);
        let other = value.pointer(other).cloned();
        if let Some((parent, key)) = pointer.rsplit_once('/')
            && self.once_in(5)
        {
            return self.spoil_key(value.pointer_mut(parent), key);
        }
        if let Some(place) = value.pointer_mut(pointer) {
            let old = place.take();
            *place = self.instead_of(old, other.unwrap_or_default());
        }
    }

    fn instead_of(&mut self, old: Value, other: Value) -> Value {
        match (self.0.usize(..8), old) {
            (0, _) => other,
            (1, old) => json!([old]),
            (2, old) => json!({ "subnet": old }),
            (3, Value::Array(items)) => items
                .iter()
                .cycle()
                .take(items.len() * 300)
                .cloned()
                .collect(),
            (3 | 4, Value::String(text)) => self.tweaked(&text).into(),
            (3 | 4, Value::Number(number)) => {
                let near = number
                    .as_i64()
                    .unwrap_or_default()
                    .wrapping_add(self.0.i64(-2..=2));
                near.into()
            }
            _ => self.hostile(),
        }
    }

    /// Removes a key, doubles it in other letters, or gives it another name.
    fn spoil_key(&mut self, parent: Option<&mut Value>, key: &str) {
        match parent {
            Some(Value::Object(keys)) => {
                let value = match self.0.bool() {
                    true => keys.remove(key),
                    false => keys.get(key).cloned(),
                };
                if self.0.bool() {
                    let name = match self.0.usize(..3) {
                        0 => key.to_uppercase(),
                        1 => format!("{key}\u{17f}"),
                        _ => self.tweaked(key),
                    };
                    let value = if self.0.bool() {
                        self.hostile()
                    } else {
                        value.unwrap_or_default()
                    };
                    keys.insert(name, value);
                }
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                items.remove(self.0.usize(..items.len()));
            }
            _ => {}
        }
    }

    /// A value that is nowhere expected.
    fn hostile(&mut self) -> Value {
        match self.0.usize(..4) {
            0 => {
                let text = *self.pick(&TEXTS);
                text.into()
            }
            1 => {
                let numbers = [
                    0,
                    -1,
                    1,
                    15,
                    65_535,
                    65_536,
                    1 << 31,
                    1 << 32,
                    i64::MIN,
                    i64::MAX,
                ];
                (*self.pick(&numbers)).into()
            }
            2 => {
                let depth = *self.pick(&[1, 50, 120]);
                (0..depth).fold(Value::Null, |inner, _| json!([inner]))
            }
            _ => {
                let values = [
                    json!(null),
                    json!(true),
                    json!(false),
                    json!([]),
                    json!({}),
                    json!(u64::MAX),
                    json!(1.5),
                    json!(-1e308),
                    json!("x".repeat(20_000)),
                    json!([null, {}, [], ""]),
                ];
                self.pick(&values).clone()
            }
        }
    }

    fn tweaked(&mut self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let at = self.0.usize(..=letters.len());
        match self.0.usize(..4) {
            0 => letters.truncate(at),
            1 => letters.insert(
                at,
                *self.pick(&['0', '9', '/', ':', '.', '%', ' ', '\0', 'é', '🦀']),
            ),
            2 => letters.extend_from_within(..at),
            _ => drop(letters.drain(..at)),
        }
        letters.into_iter().collect()
    }

    /// What a `Value` cannot hold: repeated keys, numbers beyond all types, nesting without end.
    fn spoiled_text(&mut self, text: String) -> String {
        let keys: Vec<_> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
        let Some(at) = (!keys.is_empty()).then(|| *self.pick(&keys)) else {
            return text;
        };
        let (before, after) = text.split_at(at);
        let key = before.rsplit('"').nth(1).unwrap_or_default();
        match self.0.usize(..7) {
            0 => format!("{before}{},\"{key}\":{after}", self.hostile()),
            1 => format!("{before}1e999,\"{key}\":{after}"),
            2 => format!("{before}-,\"{key}\":{after}"),
            3 => format!("{before}\"\\ud800\",\"{key}\":{after}"),
            4 => format!("{before}{},\"{key}\":{after}", "[".repeat(100_000)),
            5 => format!("{before}{}", "{\"ipam\":".repeat(50_000)),
            _ => format!("\u{feff}{text}{text}"),
        }
    }

    fn spoiled_bytes(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..self.0.usize(1..=4) {
            let at = self.0.usize(..=bytes.len());
            match self.0.usize(..4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.0.u8(..)),
                2 => bytes.extend_from_within(at..),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.0.u8(..8);
                    }
                }
            }
        }
        bytes
    }
}

/// Texts of all kinds, addresses and names among them.
const TEXTS: [&str; 32] = [
    "",
    " ",
    "\0",
    "a\0b",
    "é",
    "🦀",
    "\u{202e}",
    "\n",
    "\"",
    "\\",
    "%s%n%d",
    "-",
    "--help",
    "/",
    ".",
    "..",
    "../../x",
    "/dev/null",
    "lo",
    "eth0",
    "cni0",
    "sixteen-bytes-xx",
    "a/b:c d",
    "0.0.0.0/0",
    "::/0",
    "10.244.0.0/33",
    "255.255.255.255/32",
    "::ffff:10.0.0.0/104",
    "fe80::1%lo",
    "10.244.0.2/24",
    "00:00:00:00:00:00",
    "ff:ff:ff:ff:ff:ff",
];

/// The JSON pointers of all values.
fn collect(value: &Value, pointer: String, all: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{pointer}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                collect(value, format!("{pointer}/{at}"), all);
            }
        }
        _ => {}
    }
    all.push(pointer);
}
