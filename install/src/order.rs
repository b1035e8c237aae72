//! What an installation consists of.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cni::runtime::NetworkList;

use crate::error::{Doing, Error, Result};

/// The plugins, by the names that existing conflists use. Their own have `-lite` behind these.
pub const PLUGINS: [&str; 5] = ["bridge", "portmap", "bandwidth", "loopback", "host-local"];

/// The plugin that runtimes run by themselves.
const LOOPBACK: &str = "loopback";
/// The tool beside the plugins.
const TOOL: &str = "podnet";
/// What a program's file begins with: an ELF file's magic (elf(5)), a script's (execve(2)).
const BEGINS: [&[u8]; 2] = [b"\x7fELF", b"#!"];
/// What runtimes read of a folder of configurations.
const ENDINGS: [&str; 3] = ["conflist", "conf", "json"];

/// A file to be put somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The folder, which is made where it is not there.
    pub folder: PathBuf,
    /// The file's name in it.
    pub name: String,
    /// What is in it.
    pub content: Content,
    /// Permission bits.
    pub mode: u32,
    /// Another's that is there stays, and this one is not put in its place.
    pub yields: bool,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The same as in that file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Where it comes from.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::File(path) => path.display().fmt(f),
            Content::Bytes(_) => f.write_str("the text"),
        }
    }
}

impl Content {
    /// A reader from the first byte on.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Content::File(path) => Box::new(File::open(path)?),
            Content::Bytes(bytes) => Box::new(bytes.as_slice()),
        })
    }
}

/// The programs of the folder `from`, for the folder of plugins: the plugins under their own names
/// and, with `standard_names`, under those that existing conflists use; and `podnet`, where it is
/// beside them.
///
/// # Errors
/// A plugin is not there; a file is no program, or cannot be read.
pub fn programs(from: &Path, folder: &Path, standard_names: bool) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for standard in PLUGINS {
        let own = own_name(standard);
        let file = from.join(&own);
        if !file.is_file() {
            let folder = from.to_owned();
            return Err(Error::NoSource { name: own, folder });
        }
        expect_program(&file)?;
        items.push(program(from, &own, folder, &own));
        items.extend(standard_names.then(|| program(from, &own, folder, standard)));
    }
    if from.join(TOOL).is_file() {
        expect_program(&from.join(TOOL))?;
        items.push(program(from, TOOL, folder, TOOL));
    }
    Ok(items)
}

/// `loopback` of the folder `from` under that name, by which runtimes run it for each pod, whatever conflists say;
/// where the folder of plugins has another's, that does.
pub fn loopback(from: &Path, folder: &Path) -> Item {
    Item {
        yields: true,
        ..program(from, &own_name(LOOPBACK), folder, LOOPBACK)
    }
}

/// Refuses what the kernel would not run, as a download that has ended at once.
fn expect_program(file: &Path) -> Result<()> {
    let opened = File::open(file).doing(|| format!("read {}", file.display()))?;
    let mut head = Vec::new();
    let longest = BEGINS.iter().map(|begin| begin.len()).max().unwrap_or(0);
    let read = opened.take(longest as u64).read_to_end(&mut head);
    read.doing(|| format!("read {}", file.display()))?;
    match BEGINS.iter().any(|begin| head.starts_with(begin)) {
        true => Ok(()),
        false => Err(Error::NoProgram(file.to_owned())),
    }
}

/// A plugin's own name, by the one that existing conflists use.
pub(crate) fn own_name(standard: &str) -> String {
    format!("{standard}-lite")
}

/// The plugins of a folder under the names that existing conflists use.
pub(crate) fn copies(folder: &Path) -> impl Iterator<Item = Item> {
    let copy = |standard: &&str| program(folder, &own_name(standard), folder, standard);
    PLUGINS.iter().map(copy)
}

/// The program `source` of the folder `from`, for another under that name.
fn program(from: &Path, source: &str, folder: &Path, name: &str) -> Item {
    Item {
        folder: folder.to_owned(),
        name: name.to_owned(),
        content: Content::File(from.join(source)),
        mode: 0o755,
        yields: false,
    }
}

/// A network's configuration for the folder of configurations, under the name of `file`.
///
/// # Errors
/// No runtime would read a file of that name, or could read that text.
pub fn configuration(file: &Path, text: Vec<u8>, folder: &Path) -> Result<Item> {
    let wrong = |reason: String| Error::Configuration {
        file: file.to_owned(),
        reason,
    };
    let name = configuration_name(file).map_err(wrong)?;
    let list = NetworkList::parse(text.clone()).map_err(|error| wrong(error.to_string()))?;
    if let Some(reason) = list.misnamed(file) {
        return Err(wrong(reason.to_owned()));
    }
    Ok(Item {
        folder: folder.to_owned(),
        name: name.to_owned(),
        content: Content::Bytes(text),
        mode: 0o644,
        yields: false,
    })
}

/// The name of a file as a configuration.
///
/// # Errors
/// Why it is none.
pub fn configuration_name(file: &Path) -> std::result::Result<&str, String> {
    let name = file.file_name().and_then(|name| name.to_str());
    let ending = file.extension().and_then(|ending| ending.to_str());
    let name = name.filter(|_| ending.is_some_and(|ending| ENDINGS.contains(&ending)));
    let name = name.ok_or("runtimes read files named *.conflist, *.conf and *.json alone")?;
    if !is_seen_as_it_is(name) {
        return Err(format!(
            "{name:?} is no name for a configuration: people would not see it as it is"
        ));
    }
    Ok(name)
}

/// Whether people see a file's name where it is listed, and see it as it is: no character is one that is
/// not shown, or that shows others in another order, and no blank is at an end.
fn is_seen_as_it_is(name: &str) -> bool {
    // These are shown, but are escaped all the same.
    let name = name.replace(['\'', '"', '\\'], "-");
    let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
    let is_hidden = name.starts_with('.') || stem.is_empty() || stem.trim() != stem;
    !is_hidden && name.escape_debug().eq(name.chars())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_plugins_under_both_names_and_the_tool_where_it_is() {
        let from = tempfile::tempdir().unwrap();
        let names = |standard_names| {
            let items = programs(from.path(), Path::new("/bin"), standard_names);
            items.map(|items| items.into_iter().map(|item| item.name).collect::<Vec<_>>())
        };
        for standard in PLUGINS {
            let error = names(false).unwrap_err();
            assert!(error.is_usage(), "{error}");
            let expected = format!("{standard}-lite is not in {}", from.path().display());
            assert_eq!(error.to_string(), expected);
            fs::write(from.path().join(format!("{standard}-lite")), "#!").unwrap();
        }
        let own = PLUGINS.map(|standard| format!("{standard}-lite"));
        assert_eq!(names(false).unwrap(), own);
        fs::write(from.path().join("podnet"), "\x7fELF...").unwrap();
        let all = names(true).unwrap();
        assert_eq!(all.len(), 11);
        assert_eq!(all[..2], ["bridge-lite", "bridge"]);
        assert_eq!(all[10], "podnet");
    }

    #[test]
    fn loopback_has_the_name_that_runtimes_know() {
        let item = loopback(Path::new("/from"), Path::new("/bin"));
        assert_eq!((item.name.as_str(), item.yields), ("loopback", true));
        assert_eq!(item.content, Content::File("/from/loopback-lite".into()));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let from = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(from.path().join(name), text).unwrap();
        for standard in PLUGINS {
            write(&own_name(standard), "#!/bin/sh\n");
        }
        for name in ["loopback-lite", "podnet"] {
            for text in ["", "#", "\x7fEL", "<html>Not Found</html>", "{}"] {
                write(name, text);
                let error = programs(from.path(), Path::new("/bin"), false).unwrap_err();
                assert!(error.is_usage(), "{error}");
                let said = format!(
                    "{} is no program: it begins neither as an ELF file nor as a script",
                    from.path().join(name).display()
                );
                assert_eq!(error.to_string(), said);
            }
            write(name, "\x7fELF");
        }
        assert!(programs(from.path(), Path::new("/bin"), false).is_ok());
    }

    #[test]
    fn they_are_those_that_are_built() {
        let makefile = include_str!("../../Makefile");
        let built = makefile
            .lines()
            .find_map(|line| line.strip_prefix("PLUGINS"));
        let built = built.unwrap().trim_start_matches([' ', ':', '=']);
        let own = PLUGINS.map(|standard| format!("{standard}-lite"));
        assert_eq!(built.split(' ').collect::<Vec<_>>(), own);
    }

    #[test]
    fn a_standard_name_is_of_the_plugin_s_own_file() {
        let from = tempfile::tempdir().unwrap();
        for standard in PLUGINS {
            fs::write(from.path().join(format!("{standard}-lite")), "#!").unwrap();
        }
        let items = programs(from.path(), Path::new("/bin"), true).unwrap();
        let bridge = items.iter().find(|item| item.name == "bridge").unwrap();
        let own = Content::File(from.path().join("bridge-lite"));
        assert_eq!((&bridge.content, bridge.mode), (&own, 0o755));
    }

    #[test]
    fn names_that_are_seen_as_they_are() {
        for name in [
            "10-n.conflist",
            "a b.conf",
            "\u{e9}.json",
            "e\u{301}.conf",
            "it's \"1\".conf",
        ] {
            assert!(is_seen_as_it_is(name), "{name:?}");
        }
        for name in [
            ".conflist",
            ".a.conflist",
            " .conflist",
            " a.conflist",
            "a .conflist",
            "a\t.conflist",
            "a\u{202e}tsil.conflist",
            "a\u{200b}.conflist",
            "a\u{a0}.conflist",
            "\u{feff}a.conflist",
        ] {
            assert!(!is_seen_as_it_is(name), "{name:?}");
        }
    }

    #[test]
    fn configurations_that_a_runtime_reads() {
        let text = br#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}]}"#;
        let read = |file: &str, text: &[u8]| {
            configuration(Path::new(file), text.to_vec(), Path::new("/conf"))
        };
        let item = read("some/10-n.conflist", text).unwrap();
        assert_eq!((item.name.as_str(), item.mode), ("10-n.conflist", 0o644));
        assert_eq!(item.content, Content::Bytes(text.to_vec()));
        for (file, text, words) in [
            ("10-n.txt", &text[..], "runtimes read files named"),
            ("..", text, "runtimes read files named"),
            (".10-n.conflist", text, "\".10-n.conflist\" is no name"),
            ("10\nn.conflist", text, "\"10\\nn.conflist\" is no name"),
            ("10-n.conflist", b"{", "10-n.conflist: "),
            ("10-n.conflist", br#"{"plugins": []}"#, "10-n.conflist: "),
        ] {
            let error = read(file, text).unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
