//! The folder that a plan is written into: what earlier runs have left in it, and how files get there.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use plan::files::{CLUSTER, NODES, RANGES};
use plan::{GivenNode, Plan, conflist, podcidrs, range};

use crate::failure::Failure;
use crate::reading;

/// How much of a file is compared at once, in bytes.
const COMPARED: usize = 64 << 10;

/// The ranges that an earlier run has written.
///
/// # Errors
/// They cannot be read, or are lost: to give all nodes new ones would be worse than to stop.
pub fn earlier(out: &Path) -> Result<Vec<GivenNode>, Failure> {
    let file = out.join(RANGES);
    let name = file.display();
    let (text, state) = match reading::text(&file) {
        Ok(text) => (text, "empty"),
        Err(error) if error.kind() == ErrorKind::NotFound => (String::new(), "missing"),
        Err(error) => return Err(Failure::Usage(format!("cannot read {name}: {error}"))),
    };
    if text.trim().is_empty() {
        let mut others = [CLUSTER, NODES].into_iter().map(|other| out.join(other));
        if let Some(other) = others.find(|other| other.exists()) {
            let (out, other) = (out.display(), other.display());
            return Err(Failure::Usage(format!(
                "{name}: {state}, but {other} is there, so nodes have ranges already: put {RANGES} back \
                 (`podnet plan podcidrs -f {out}/{CLUSTER} >{name}` where {CLUSTER} is whole), or remove \
                 {out} to give all nodes new ones"
            )));
        }
    }
    podcidrs::read(&name.to_string(), &text).map_err(Failure::usage)
}

/// A line for each node that is no more, as long as its folder is there, and when it goes. The
/// folder stays, since nobody asked for its removal.
pub fn gone(out: &Path, earlier: &[GivenNode], plan: &Plan) -> Vec<String> {
    let nodes = out.join(NODES);
    let folders = fs::read_dir(&nodes).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.path().is_dir());
    let folders = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = folders.collect();
    names.extend(earlier.iter().map(|node| node.name.clone()));
    let there: HashSet<&str> = plan.nodes().map(|(node, _)| node.name.as_str()).collect();
    names.retain(|name| !there.contains(name.as_str()));
    names.sort_by(|a, b| plan::natural(a, b));
    names.dedup();
    let line = |name: &String| farewell(name, &nodes.join(name), plan);
    names.iter().map(line).collect()
}

fn farewell(name: &str, folder: &Path, plan: &Plan) -> String {
    let path = folder.display();
    if !folder.exists() {
        return format!("node {name} is no more: its range is free");
    }
    let had = written_ranges(folder);
    let taken = had.iter().find_map(|had| {
        let mut nodes = plan.nodes();
        let is_taken =
            |ranges: &[IpNet]| ranges.iter().any(|one| range::shared(*one, *had).is_some());
        let (node, _) = nodes.find(|(_, ranges)| is_taken(ranges))?;
        Some((had, &node.name))
    });
    match taken {
        None => format!("node {name} is no more: its range is free, {path} can be removed"),
        Some((range, heir)) => format!(
            "node {name} is no more, and its range {range} is {heir}'s now: {path} still gives it to \
             {name}, and must be removed"
        ),
    }
}

/// The ranges of the conflists in a node's folder, as far as they can be read.
fn written_ranges(folder: &Path) -> Vec<IpNet> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path());
    let lists = files.filter(|file| file.extension().is_some_and(|end| end == "conflist"));
    let raw = lists.filter_map(|file| reading::bytes(&file).ok());
    let lists = raw.filter_map(|raw| serde_json::from_slice(&raw).ok());
    lists.flat_map(|list| conflist::subnets(&list)).collect()
}

/// Writes files below a folder. Each is there whole or not at all, as it was or as it is to be,
/// whenever the process ends; and the ranges are on the disk before anything else is written.
pub struct Writer<'a> {
    out: &'a Path,
    /// The folder that was made last.
    made: PathBuf,
    buffer: Vec<u8>,
    /// How many are as they are to be.
    pub written: usize,
}

impl<'a> Writer<'a> {
    /// Has written nothing yet.
    pub fn new(out: &'a Path) -> Writer<'a> {
        Writer {
            out,
            made: PathBuf::new(),
            buffer: vec![0; COMPARED],
            written: 0,
        }
    }

    /// Makes a file have that content, and leaves one alone that has it.
    ///
    /// # Errors
    /// It cannot be written; it is as it was then.
    pub fn put(&mut self, path: &str, pieces: &[&str]) -> Result<(), Failure> {
        let file = self.out.join(path);
        // All else can be made again of the ranges, and is too much to wait for.
        let lasting = path == RANGES;
        self.try_put(&file, pieces, lasting)
            .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", file.display())))
    }

    fn try_put(&mut self, file: &Path, pieces: &[&str], lasting: bool) -> io::Result<()> {
        let folder = file.parent().unwrap_or(self.out);
        if self.made != folder {
            fs::create_dir_all(folder)?;
            folder.clone_into(&mut self.made);
        }
        if !self.holds(file, pieces) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            // The same at each run, so that what a kill leaves is taken up by the next.
            let new = folder.join(format!(".{name}.new"));
            let put = fill(&new, pieces, lasting).and_then(|()| fs::rename(&new, file));
            if put.is_err() {
                // What matters is why it could not be written.
                let _ = fs::remove_file(&new);
            }
            put?;
            if lasting {
                File::open(folder)?.sync_all()?;
            }
        }
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    /// Whether a file has that content. What cannot be read has it not.
    fn holds(&mut self, file: &Path, pieces: &[&str]) -> bool {
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_alike = |there: &fs::Metadata| there.is_file() && there.len() == size as u64;
        if !fs::symlink_metadata(file).is_ok_and(|there| is_alike(&there)) {
            return false;
        }
        let Ok(mut there) = File::open(file) else {
            return false;
        };
        let pieces = pieces.iter().map(|piece| piece.as_bytes());
        let mut chunks = pieces.flat_map(|piece| piece.chunks(COMPARED));
        chunks.all(|chunk| {
            let buffer = self.buffer.get_mut(..chunk.len()).unwrap_or_default();
            there.read_exact(buffer).is_ok() && buffer == chunk
        })
    }
}

fn fill(file: &Path, pieces: &[&str], lasting: bool) -> io::Result<()> {
    let mut file = File::create(file)?;
    let mut pieces = pieces.iter().filter(|piece| !piece.is_empty());
    pieces.try_for_each(|piece| file.write_all(piece.as_bytes()))?;
    if lasting { file.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_exchanged_whole_and_only_where_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let file = out.join("nodes/a/routes.sh");
        let mut writer = Writer::new(out);
        let number = || fs::metadata(&file).unwrap().ino();
        let big = "x".repeat(COMPARED + 7);
        writer.put("nodes/a/routes.sh", &["one", "", &big]).unwrap();
        // Whoever has the old one open reads it to its end.
        let (first, mut open) = (number(), File::open(&file).unwrap());
        writer.put("nodes/a/routes.sh", &["on", "e", &big]).unwrap();
        assert_eq!(number(), first);
        writer.put("nodes/a/routes.sh", &["two", &big]).unwrap();
        assert_ne!(number(), first);
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("one{big}"));
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("two{big}"));
        let there = fs::read_dir(out.join("nodes/a")).unwrap();
        assert_eq!((there.count(), writer.written), (1, 3));
    }

    #[test]
    fn what_cannot_be_written_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("README.md/inside")).unwrap();
        let failure = Writer::new(folder.path()).put("README.md", &["text"]);
        assert!(matches!(failure, Err(Failure::Usage(_))), "{failure:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_run_has_left_is_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".podcidrs.txt.new");
        fs::write(&left, "node-1 10.2").unwrap();
        assert_eq!(earlier(folder.path()).unwrap(), []);
        Writer::new(folder.path())
            .put(RANGES, &["a 10.1.0.0/24\n"])
            .unwrap();
        assert!(!left.exists());
        assert_eq!(earlier(folder.path()).unwrap()[0].name, "a");
    }
}
