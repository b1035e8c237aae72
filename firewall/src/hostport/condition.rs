//! Conditions in the words of iptables. Its programs understand them; here is only what they take and
//! could not read again, since they print names of links as they are.

/// The first name of a link that a printed rule could not be read with.
pub fn unreadable(words: &[String]) -> Option<&str> {
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let name = match word.split_once('=').unwrap_or((word, "")) {
            ("--comment", "") => {
                rest.next();
                continue;
            }
            (option, value) if is_long(option) => Some(value).filter(|value| !value.is_empty()),
            _ => match word.strip_prefix("-i").or(word.strip_prefix("-o")) {
                Some(name) => Some(name).filter(|name| !name.is_empty()),
                None => continue,
            },
        };
        let name = name.or_else(|| rest.next());
        if name.is_some_and(|name| !is_readable(name)) {
            return name;
        }
    }
    None
}

/// `--in-interface` and `--out-interface`, which may be shortened.
fn is_long(option: &str) -> bool {
    let is = |full: &str| option.len() > 2 && full.starts_with(option);
    is("--in-interface") || is("--out-interface")
}

fn is_readable(name: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '\'' | '\\');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        unreadable(&words).map(ToOwned::to_owned)
    }

    #[test]
    fn names_that_are_printed_and_not_read_again() {
        for words in [
            &["-i", "a\"b"][..],
            &["!", "-o", "a\"b"],
            &["-s", "192.0.2.0/24", "--in-interface", "a\"b"],
            &["--out=a\"b"],
            &["-ia\"b"],
        ] {
            assert_eq!(of(words).as_deref(), Some("a\"b"), "{words:?}");
        }
        for name in ["-j", "-j ACCEPT", "a b", "'", "\\", "a\u{a0}b", ""] {
            assert_eq!(of(&["-i", name]).as_deref(), Some(name));
        }
    }

    #[test]
    fn all_else_is_for_iptables_to_say() {
        for words in [
            &[][..],
            &["!", "-s", "192.0.2.0/24", "-i", "eth+"],
            &["-i", "br-a.1", "-o", "\u{e9}t\u{e9}0"],
            &[
                "-m",
                "comment",
                "--comment",
                "-i",
                "-m",
                "comment",
                "--comment",
                "a \"b\"",
            ],
            &["-i"],
            &["--i=eth0", "--in-interface=eth0"],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
