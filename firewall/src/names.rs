//! Names of chains and comments of rules, by the reference plugins' formulas.

use sha2::{Digest, Sha512};

use crate::Owner;

/// The longest name that the reference plugins give a chain, in bytes: the kernel's
/// `XT_EXTENSION_MAXNAMELEN` (29, linux/netfilter/x_tables.h) without the final zero.
const MAX_CHAIN_LEN: usize = 28;
/// `XT_MAX_COMMENT_LEN` (256, linux/netfilter/xt_comment.h) without the final zero; iptables cuts
/// longer ones silently.
const MAX_COMMENT_LEN: usize = 255;

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

/// The comment of the attachment's masquerade rules.
pub fn masquerade_comment(owner: Owner) -> String {
    let mut comment = format!(
        "name: {} id: {}",
        go_quote(owner.network),
        go_quote(owner.container_id)
    );
    truncate(&mut comment, MAX_COMMENT_LEN);
    comment
}

/// The comment of the attachment's entries in `CNI-HOSTPORT-DNAT`. One that is too long is cut to
/// 253 bytes and gets three dots, of which iptables keeps two.
pub fn hostport_comment(owner: Owner) -> String {
    let mut comment = format!(
        "dnat name: {} id: {}",
        go_quote(owner.network),
        go_quote(owner.container_id)
    );
    if comment.len() > MAX_COMMENT_LEN {
        truncate(&mut comment, MAX_COMMENT_LEN - 2);
        comment.push_str("..");
    }
    comment
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
