//! The resolver's file, resolv.conf(5).

use std::path::Path;

use cni::{Dns, Error};

use crate::store::io_error;

/// Reads the settings of a file.
///
/// # Errors
/// Code 5 where it cannot be read.
pub fn read(path: &Path) -> Result<Dns, Error> {
    let text = std::fs::read(path).map_err(|error| io_error("open", path, &error))?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// The settings in the text of a resolv.conf. Comments, and lines without a value, say nothing;
/// of several `domain` lines the last counts.
fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(keyword) = words.next() else {
            continue;
        };
        let mut values = words.map(str::to_string);
        match keyword {
            "nameserver" => dns.nameservers.extend(values.next()),
            "domain" => dns.domain = values.next().unwrap_or(dns.domain),
            "search" => dns.search.extend(values),
            "options" => dns.options.extend(values),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_read() {
        let text = "# comment\n; nameserver 9.9.9.9\nnameserver 10.0.0.1\n  nameserver\t10.0.0.2 trailing\n\
                    domain old.example\ndomain example.com\nsearch a.example b.example\nsearch c.example\n\
                    options ndots:5 timeout:1\nsortlist 1.2.3.4\nnameserver\n#nameserver 1.1.1.1";
        let dns = parse(text);
        assert_eq!(dns.nameservers, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(dns.domain, "example.com");
        assert_eq!(dns.search, ["a.example", "b.example", "c.example"]);
        assert_eq!(dns.options, ["ndots:5", "timeout:1"]);
    }

    #[test]
    fn lines_without_a_value_say_nothing() {
        assert_eq!(parse("domain\nsearch\n\n   \noptions\r\n"), Dns::default());
        let kept = parse("domain example.com\ndomain\n");
        assert_eq!(kept.domain, "example.com");
    }
}
