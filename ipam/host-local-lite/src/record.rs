//! What a reservation file says: pure, as the reference plugin writes and reads it.

use cni::{Attachment, is_identifier};

/// Whom a reservation file names, as one attachment sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The attachment itself.
    Attachment,
    /// The attachment's container, in the oldest format, which had no interface.
    Container,
    /// Another attachment, or we cannot tell.
    Other,
    /// Nobody: no runtime can have that container id, so no DEL would ever come for it. A file
    /// that a power loss left empty or full of zeros is so; its address is free.
    Nobody,
}

/// Whom a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The container.
    pub container_id: &'a str,
    /// Its interface; none in the oldest format.
    pub ifname: Option<&'a str>,
}

impl<'a> Owner<'a> {
    /// As this attachment's files name it.
    pub fn of(attachment: &'a Attachment) -> Owner<'a> {
        Owner {
            container_id: &attachment.container_id,
            ifname: Some(&attachment.ifname),
        }
    }

    /// As its container was named in the oldest format.
    pub fn before(attachment: &'a Attachment) -> Owner<'a> {
        Owner {
            ifname: None,
            ..Owner::of(attachment)
        }
    }
}

/// Whom a file's content names, where [`holder`] could tell somebody that it is his.
pub fn owner(content: &[u8]) -> Option<Owner<'_>> {
    let text = std::str::from_utf8(trim(content)).ok()?;
    let (container_id, ifname) = match text.split_once("\r\n") {
        Some((id, ifname)) => (id, Some(ifname)),
        None => (text, None),
    };
    is_identifier(container_id).then_some(Owner {
        container_id,
        ifname,
    })
}

/// The content of an attachment's file: container id, CR, LF, interface; nothing behind it.
pub fn content(attachment: &Attachment) -> Vec<u8> {
    format!("{}\r\n{}", attachment.container_id, attachment.ifname).into_bytes()
}

/// Reads a file's content. White space around it does not count.
pub fn holder(content: &[u8], attachment: &Attachment) -> Holder {
    let content = trim(content);
    let id = first_line(content);
    if !std::str::from_utf8(id).is_ok_and(is_identifier) {
        return Holder::Nobody;
    }
    if id != attachment.container_id.as_bytes() {
        return Holder::Other;
    }
    match content.strip_prefix(id) {
        Some(b"") => Holder::Container,
        Some(rest) if rest.strip_prefix(b"\r\n") == Some(attachment.ifname.as_bytes()) => {
            Holder::Attachment
        }
        _ => Holder::Other,
    }
}

/// Whether a file named by an address holds it for nobody who is valid; `is_valid` is asked for the
/// container, and for its interface where the file names one. What is no reservation is somebody's,
/// and is none of ours; only a file without any content is what a power loss left of one.
pub fn is_garbage(content: &[u8], is_valid: impl Fn(&str, Option<&str>) -> bool) -> bool {
    let content = trim(content);
    if content.is_empty() {
        return true;
    }
    let Ok(content) = std::str::from_utf8(content) else {
        return false;
    };
    let (id, ifname) = match content.split_once("\r\n") {
        Some((id, ifname)) => (id, Some(ifname)),
        None => (content, None),
    };
    let blank = |ifname: &str| ifname.contains(|c: char| c.is_whitespace());
    is_identifier(id) && !ifname.is_some_and(blank) && !is_valid(id, ifname)
}

/// The content on one line, for a person.
pub fn describe(content: &[u8]) -> String {
    let text = String::from_utf8_lossy(trim(content));
    match text.split_once("\r\n") {
        Some((id, ifname)) => format!("reserved by container {id:?}, interface {ifname:?}"),
        None => format!("reserved by container {text:?}"),
    }
}

/// Zeros count as white space: a file system may fill with them what a power loss took.
fn trim(content: &[u8]) -> &[u8] {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let start = content.iter().take_while(|byte| blank(byte)).count();
    let content = content.get(start..).unwrap_or_default();
    let end = content.iter().rev().take_while(|byte| blank(byte)).count();
    content.get(..content.len() - end).unwrap_or_default()
}

fn first_line(content: &[u8]) -> &[u8] {
    content
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment() -> Attachment {
        Attachment::new("net", "abc_1.x-y", "eth0")
    }

    #[test]
    fn content_is_the_reference_plugins() {
        assert_eq!(content(&attachment()), b"abc_1.x-y\r\neth0");
    }

    #[test]
    fn holders() {
        let cases: &[(&[u8], Holder)] = &[
            (b"abc_1.x-y\r\neth0", Holder::Attachment),
            (b"  abc_1.x-y\r\neth0\n", Holder::Attachment),
            (b"abc_1.x-y", Holder::Container),
            (b"abc_1.x-y\n", Holder::Container),
            (b"abc_1.x-y\r\n", Holder::Container),
            (b"abc_1.x-y\r\neth1", Holder::Other),
            (b"abc_1.x-y\neth0", Holder::Other),
            (b"abc_1.x-y\r\neth0\r\nmore", Holder::Other),
            (b"abc_1.x-", Holder::Other),
            (b"abc_1.x-yz\r\neth0", Holder::Other),
            (b"", Holder::Nobody),
            (b" \r\n\t", Holder::Nobody),
            (b"\0\0\0\0\0\0", Holder::Nobody),
            (b"\xff\xfe\x80", Holder::Nobody),
            (b"-abc\r\neth0", Holder::Nobody),
            (b"two words", Holder::Nobody),
        ];
        for (content, expected) in cases {
            assert_eq!(holder(content, &attachment()), *expected, "{content:?}");
        }
    }

    #[test]
    fn garbage_is_of_nobody_valid() {
        let is_valid = |id: &str, ifname: Option<&str>| {
            id == "abc" && ifname.is_none_or(|ifname| ifname == "eth0")
        };
        let cases: &[(&[u8], bool)] = &[
            (b"abc\r\neth0", false),
            (b" abc\r\neth0\n", false),
            (b"abc", false),
            (b"abc\r\n", false),
            (b"abc\r\neth1", true),
            (b"ab\r\neth0", true),
            (b"abcd\r\neth0", true),
            (b"abcd\n", true),
            (b"", true),
            (b"\0\0\0\0", true),
            (b" \r\n", true),
            (b"two words", false),
            (b"-abcd\r\neth0", false),
            (b"abcd\neth0", false),
            (b"abcd\r\neth0\r\nmore", false),
            (b"\xff\xfe", false),
        ];
        for (content, expected) in cases {
            assert_eq!(is_garbage(content, is_valid), *expected, "{content:?}");
        }
    }

    #[test]
    fn a_person_reads_the_owner() {
        assert_eq!(
            describe(b"abc\r\neth0"),
            r#"reserved by container "abc", interface "eth0""#
        );
        assert_eq!(describe(b"abc\n"), r#"reserved by container "abc""#);
    }
}
