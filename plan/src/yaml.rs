//! Texts as scalars of YAML.

use std::net::Ipv4Addr;

/// A text as a scalar that every reader of YAML takes for a text: plain where that is safe, else in
/// quotes as JSON has them.
pub fn scalar(text: &str) -> String {
    // Numbers begin with a digit, and in YAML 1.1 these words are flags.
    const WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(safe)
        && !WORDS.contains(&text)
        && text != "null";
    // Neither an IPv4 address nor an IPv4 range is a number of any kind.
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit() || "./".contains(c));
    let ipv4 = digits(text) && address.parse::<Ipv4Addr>().is_ok();
    if plain || ipv4 {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn they_are_read_back_as_texts() {
        for (text, written) in [
            ("lab-node-0", "lab-node-0"),
            ("10.244.0.0/24", "10.244.0.0/24"),
            ("fd00::/64", "\"fd00::/64\""),
            ("10.244.0.1", "10.244.0.1"),
            ("10.1", "\"10.1\""),
            ("0x1f", "\"0x1f\""),
            ("1e3", "\"1e3\""),
            ("no", "\"no\""),
            ("null", "\"null\""),
            ("", "\"\""),
            ("a: b", "\"a: b\""),
            (
                "k8nd.example.com/cni-missing",
                "k8nd.example.com/cni-missing",
            ),
        ] {
            assert_eq!(scalar(text), written);
            let document = Document::parse("f", &format!("key: {}", scalar(text))).unwrap();
            assert_eq!(document.value()["key"], text);
        }
    }
}
