//! The resolver's file, resolv.conf(5).

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use cni::{Dns, Error};
use nix::fcntl::OFlag;

use crate::store::io_error;

/// The largest file, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Reads the settings of a file. One that is no regular file, once links are followed, is not read:
/// a pipe may keep us waiting and a device may never end.
///
/// # Errors
/// Code 5 where it cannot be read, 7 where it is no regular file or too large.
pub fn read(path: &Path) -> Result<Dns, Error> {
    let failed = |error| io_error("open", path, &error).details(describe(path));
    let refuse = |flaw: &str| Error::config(format!("{}: {flaw}", describe(path)));
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(flags.bits()).open(path);
    let file = opened.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(refuse("must be a regular file"));
    }
    let mut text = Vec::new();
    let mut start = file.take(LARGEST + 1);
    let length = start.read_to_end(&mut text).map_err(failed)?;
    if u64::try_from(length).is_ok_and(|length| length <= LARGEST) {
        Ok(parse(&String::from_utf8_lossy(&text)))
    } else {
        Err(refuse("must have at most 1 MiB"))
    }
}

fn describe(path: &Path) -> String {
    format!("ipam.resolvConf {:?}", path.display().to_string())
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
    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn only_regular_files_of_up_to_a_mebibyte() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, length: u64| {
            let text = "nameserver 10.0.0.1\n".to_owned();
            let padding = usize::try_from(length).unwrap() - text.len();
            std::fs::write(path(name), text + &"#".repeat(padding)).unwrap();
        };
        write("largest", LARGEST);
        write("larger", LARGEST + 1);
        nix::unistd::mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        for (link, target) in [("link", path("largest")), ("to-pipe", path("pipe"))] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        for name in ["largest", "link"] {
            assert_eq!(read(&path(name)).unwrap().nameservers, ["10.0.0.1"]);
        }
        let irregular = "must be a regular file";
        for (refused, flaw) in [
            (path("pipe"), irregular),
            (path("to-pipe"), irregular),
            (path(""), irregular),
            ("/dev/zero".into(), irregular),
            (path("larger"), "must have at most 1 MiB"),
        ] {
            let error = read(&refused).unwrap_err();
            let expected = format!("{}: {flaw}", describe(&refused));
            assert_eq!((error.code, error.msg), (7, expected));
        }
        let error = read(&path("none")).unwrap_err();
        assert_eq!((error.code, error.details), (5, describe(&path("none"))));
    }

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
