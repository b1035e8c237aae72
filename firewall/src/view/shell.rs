//! Words for a shell. Comments of rules, names and ids are what anybody has written.

use std::borrow::Cow;

/// The word as a shell takes it for one, with nothing in it that means something else.
pub fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn only_plain_words_stay_as_they_are() {
        for (word, quoted) in [
            ("veth0@1", "veth0@1"),
            ("/run/netns/x", "/run/netns/x"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(x)", "'$(x)'"),
            ("!", "'!'"),
            ("it's", r"'it'\''s'"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
