//! Names of chains and comments of rules, by the reference plugins' formulas.

use sha2::{Digest, Sha512};

use crate::Owner;

/// The longest name that the reference plugins give a chain, in bytes: the kernel's
/// `XT_EXTENSION_MAXNAMELEN` (29, linux/netfilter/x_tables.h) without the final zero.
const MAX_CHAIN_LEN: usize = 28;
/// `XT_MAX_COMMENT_LEN` (256, linux/netfilter/xt_comment.h) without the final zero; iptables cuts
/// longer ones silently.
const MAX_COMMENT_LEN: usize = 255;

/// What a host port's comment begins with.
pub const HOSTPORT_WORDS: &str = "dnat ";

/// The name of a chain of the attachment. `eth0` gives [`shared_chain`], so that the reference
/// plugins find it; with any other name the interface is hashed in, so that two interfaces of one
/// container in one network have chains of their own. The separator is in no name of the three.
pub fn chain(prefix: &str, owner: Owner) -> String {
    if owner.ifname == "eth0" {
        return shared_chain(prefix, owner);
    }
    hashed(
        prefix,
        &[owner.network, "/", owner.container_id, "/", owner.ifname],
    )
}

/// The name that a reference plugin gives: one for all interfaces that the container has in the
/// network.
pub fn shared_chain(prefix: &str, owner: Owner) -> String {
    hashed(prefix, &[owner.network, owner.container_id])
}

fn hashed(prefix: &str, parts: &[&str]) -> String {
    let room = MAX_CHAIN_LEN.saturating_sub(prefix.len());
    prefix.to_owned() + &hash(parts, room)
}

/// The first hex digits, at most 128, of the SHA-512 of the parts behind each other.
pub fn hash(parts: &[&str], digits: usize) -> String {
    let digest = Sha512::digest(parts.concat());
    let mut text = base16ct::lower::encode_string(&digest);
    text.truncate(digits);
    text
}

/// Whether a name is that of an attachment's chain of the prefix, whosever.
pub fn is_chain(prefix: &str, name: &str) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == MAX_CHAIN_LEN
        && name
            .strip_prefix(prefix)
            .is_some_and(|hash| hash.bytes().all(hex))
}

/// The comment of the attachment's masquerade rules.
pub fn masquerade_comment(owner: Owner) -> String {
    let mut comment = comment("", owner);
    truncate(&mut comment, MAX_COMMENT_LEN);
    comment
}

/// The comment of the attachment's entries in `CNI-HOSTPORT-DNAT`. One that is too long is cut to
/// 253 bytes and gets three dots, of which iptables keeps two.
pub fn hostport_comment(owner: Owner) -> String {
    let mut comment = comment(HOSTPORT_WORDS, owner);
    if comment.len() > MAX_COMMENT_LEN {
        truncate(&mut comment, MAX_COMMENT_LEN - 2);
        comment.push_str("..");
    }
    comment
}

fn comment(words: &str, owner: Owner) -> String {
    let id = go_quote(owner.container_id);
    format!("{} id: {id}", head(words, owner.network))
}

/// What the comments of all attachments of a network begin with, and no other network's: the quote
/// behind its name is in no name.
fn head(words: &str, network: &str) -> String {
    format!("{words}name: {}", go_quote(network))
}

/// Whether a comment that begins with `words` is of an attachment of the network; `None` for what
/// is no such comment. A network whose name fills the comment, so that not all of it is there (from
/// 248 bytes on, for host ports from 241), is told from no other that begins so: its comments are
/// taken for another's.
pub fn is_of_network(comment: &str, words: &str, network: &str) -> Option<bool> {
    let rest = comment.strip_prefix(words)?;
    rest.starts_with("name: \"")
        .then(|| comment.starts_with(&head(words, network)))
}

/// Cuts to at most `max` bytes, between characters.
pub fn truncate(text: &mut String, max: usize) {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// A text as Go's `%q` prints it. Which characters beyond ASCII Go finds unprintable is not
/// followed: names of networks and ids have none.
fn go_quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner<'a>(network: &'a str, container_id: &'a str, ifname: &'a str) -> Owner<'a> {
        Owner {
            network,
            container_id,
            ifname,
        }
    }

    #[test]
    fn eth0_has_the_reference_names() {
        let cases = [
            ("CNI-", "mynet", "cont1", "CNI-c729ec77c46fa9b53d651af8"),
            ("CNI-", "test", "1234", "CNI-2bbe0c48b91a7d1b8a6753a8"),
            (
                "CNI-DN-",
                "test",
                "icee6giejonei6so",
                "CNI-DN-022110f36292712c8bb50",
            ),
        ];
        for (prefix, network, id, name) in cases {
            assert_eq!(chain(prefix, owner(network, id, "eth0")), name);
            assert_eq!(shared_chain(prefix, owner(network, id, "net1")), name);
        }
    }

    #[test]
    fn another_interface_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = [
            owner("net", "id", "eth0"),
            owner("net", "id", "net1"),
            owner("net", "id", "net2"),
            owner("net", "idn", "et1"),
            owner("ne", "tid", "net1"),
        ]
        .map(|owner| chain("CNI-", owner))
        .into();
        assert_eq!(names.len(), 5);
        assert!(names.iter().all(|name| name.len() == MAX_CHAIN_LEN));
    }

    #[test]
    fn comments_quote_as_go_does() {
        let odd = owner("my\"net\\", "a\n\u{1}\u{85}é", "eth0");
        assert_eq!(
            masquerade_comment(odd),
            r#"name: "my\"net\\" id: "a\n\x01\u0085é""#
        );
        assert_eq!(
            hostport_comment(owner("test", "id", "eth0")),
            r#"dnat name: "test" id: "id""#
        );
    }

    #[test]
    fn only_chains_of_attachments_are_named_so() {
        let ours = owner("mynet", "cont1", "eth0");
        for prefix in ["CNI-", "CNI-DN-"] {
            assert!(is_chain(prefix, &chain(prefix, ours)));
        }
        assert!(!is_chain("CNI-", &chain("CNI-DN-", ours)));
        for name in [
            "CNI-HOSTPORT-SETMARK",
            "CNI-",
            "CNI-C729EC77C46FA9B53D651AF8",
        ] {
            assert!(!is_chain("CNI-", name), "{name}");
        }
    }

    #[test]
    fn a_comment_tells_its_network() {
        let of = |network: &str| masquerade_comment(owner(network, "id", "eth0"));
        let is_ours = |comment: &str| is_of_network(comment, "", "net");
        assert_eq!(is_ours(&of("net")), Some(true));
        // Parts of the name, more than the name, and what would end its quotes.
        for other in ["ne", "net1", "net\" id: \"x", "net\\", "\"net", ""] {
            assert_eq!(is_ours(&of(other)), Some(false), "{other}");
        }
        let port = hostport_comment(owner("net", "id", "eth0"));
        assert_eq!(is_of_network(&port, "dnat ", "net"), Some(true));
        assert_eq!(is_of_network(&port, "dnat ", "ne"), Some(false));
        for comment in [
            &port,
            "",
            "name",
            "name: net id: id",
            "a name: \"net\" id: \"x\"",
        ] {
            assert_eq!(is_ours(comment), None, "{comment}");
        }
    }

    #[test]
    fn a_network_that_fills_a_comment_is_told_from_none() {
        let id = "x".repeat(300);
        for (words, longest) in [("", 247), (HOSTPORT_WORDS, 240)] {
            let comment = |owner: Owner| match words {
                "" => masquerade_comment(owner),
                _ => hostport_comment(owner),
            };
            for length in [1, 200, 235, 240, 241, 247, 248, 250, 255, 300] {
                let network = "n".repeat(length);
                let longer = network.clone() + "n";
                for (of, expected) in [(&network, length <= longest), (&longer, false)] {
                    let comment = comment(owner(of, &id, "eth0"));
                    let found = is_of_network(&comment, words, &network);
                    assert_eq!(found, Some(expected), "{words}{length}");
                }
            }
        }
    }

    #[test]
    fn long_comments_are_cut_as_iptables_keeps_them() {
        let long = "n".repeat(300);
        let comment = hostport_comment(owner(&long, "id", "eth0"));
        assert_eq!(comment.len(), 255);
        assert!(comment.ends_with("nn.."));
        let comment = masquerade_comment(owner(&long, "id", "eth0"));
        assert_eq!(comment.len(), 255);
        assert!(comment.ends_with("nnn"));
        assert_eq!(
            hostport_comment(owner(&"é".repeat(300), "id", "eth0")).len(),
            254
        );
    }
}
