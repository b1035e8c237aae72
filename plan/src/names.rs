//! Names of nodes, devices and networks: their order, and what they may be.

use std::cmp::Ordering;

/// The order in which people count: `node-2` before `node-10`. Runs of digits compare as numbers.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (parts(a), parts(b));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return a.cmp(b),
            (left, right) => compare(left.unwrap_or(""), right.unwrap_or("")),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Runs of digits and runs of others.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut rest = text;
    std::iter::from_fn(move || {
        let digits = is_digit(rest);
        let end = rest.find(|c: char| c.is_ascii_digit() != digits);
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn compare(a: &str, b: &str) -> Ordering {
    let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if digits(a) && digits(b) {
        let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    } else {
        a.cmp(b)
    }
}

/// Refuses what is no node's name: a DNS subdomain in small letters (RFC 1123), as Kubernetes
/// wants it.
///
/// # Errors
/// What is allowed.
pub fn check_node(name: &str) -> Result<(), String> {
    let is_label = |label: &str| {
        let edge =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(label.chars().next())
            && edge(label.chars().next_back())
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if name.len() <= 253 && name.split('.').all(is_label) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no node's name: expected small letters, digits, `-` and `.`, of at most 253"
    ))
}

/// Refuses what is no key of a taint: a name, after the DNS subdomain and the slash of whom it
/// belongs to where there is one (Kubernetes' qualified name).
///
/// # Errors
/// What is allowed.
pub fn check_taint(key: &str) -> Result<(), String> {
    let (owner, name) = match key.split_once('/') {
        Some((owner, name)) => (Some(owner), name),
        None => (None, key),
    };
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_name = name.len() <= 63
        && edge(name.chars().next())
        && edge(name.chars().next_back())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_name && owner.is_none_or(|owner| check_node(owner).is_ok()) {
        return Ok(());
    }
    Err(format!(
        "{key:?} is no key of a taint: expected a name as example.com/cni-missing"
    ))
}

/// Refuses what is no interface's name that can be written into every kind of file (`IFNAMSIZ` of
/// linux/if.h is 16, with the NUL byte).
///
/// # Errors
/// What is allowed.
pub fn check_device(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() < 16 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no interface's name: expected letters, digits, `.`, `_` and `-`, of at most 15"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let sorted = [
            "a",
            "node",
            "node-1",
            "node-01",
            "node-1a",
            "node-2",
            "node-2-b",
            "node-10",
            "node-10.x",
            "node-99999999999999999999999",
            "node-100000000000000000000000",
            "nodes",
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (place, b) in sorted.iter().enumerate() {
                if ["node-1", "node-01"].contains(a) && ["node-1", "node-01"].contains(b) {
                    assert_eq!(natural(a, b), a.cmp(b));
                } else {
                    assert_eq!(natural(a, b), at.cmp(&place), "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn what_is_a_name() {
        for (name, good) in [
            ("lab-node-0", true),
            ("0.example.com", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a..b", false),
            ("../a", false),
            ("Node", false),
            ("a b", false),
            ("a;b", false),
        ] {
            assert_eq!(check_node(name).is_ok(), good, "{name}");
        }
        assert!(check_node(&"a".repeat(254)).is_err());
        for (key, good) in [
            ("k8nd.example.com/cni-missing", true),
            ("dedicated", true),
            ("a/b/c", false),
            ("", false),
            ("a/", false),
            ("/a", false),
            ("a b", false),
            ("key=value:NoSchedule", false),
        ] {
            assert_eq!(check_taint(key).is_ok(), good, "{key}");
        }
        for (name, good) in [
            ("eth0", true),
            ("eth0.100", true),
            ("enp3s0f1", true),
            ("", false),
            ("-h", false),
            ("..", false),
            ("a/b", false),
            ("sixteen-bytes-xx", false),
            ("$(x)", false),
        ] {
            assert_eq!(check_device(name).is_ok(), good, "{name}");
        }
    }
}
