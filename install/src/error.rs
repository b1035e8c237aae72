//! Why something cannot be put in its place.

use std::io;
use std::path::PathBuf;

/// As the standard library's, with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something cannot be put in its place, or taken back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is to be put there is not to be had.
    #[error("{name} is not in {}", folder.display())]
    NoSource {
        /// The program.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// What is to be put there would not run.
    #[error("{} is no program: it begins neither as an ELF file nor as a script", .0.display())]
    NoProgram(PathBuf),
    /// A configuration that no runtime could use.
    #[error("{}: {reason}", file.display())]
    Configuration {
        /// As it was named.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Something that is no file stands in the way.
    #[error("{} is there, and no file", .0.display())]
    NoFile(PathBuf),
    /// What should be a folder is none.
    #[error("{} is there, and no folder", .0.display())]
    NoFolder(PathBuf),
    /// Another's file would have to be kept under a name that is taken.
    #[error(
        "{} is another's, and cannot be kept as {}: that is there already; move one of them away",
        path.display(), backup.display()
    )]
    BackupTaken {
        /// Another's file.
        path: PathBuf,
        /// What is taken.
        backup: PathBuf,
    },
    /// Nobody can tell what is ours.
    #[error(
        "cannot read {}, which lists what was installed: {source}{}",
        file.display(), advice(source)
    )]
    List {
        /// The list.
        file: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// What is to be put there was changed meanwhile.
    #[error("{0} has changed while it was copied")]
    Changed(String),
    /// Somebody else is at it.
    #[error("{} is being installed into by another process", .0.display())]
    Busy(PathBuf),
    /// One folder under two names: what is in it could not be told apart.
    #[error(
        "{} and {} are one folder: name it alike, or another",
        first.display(), second.display()
    )]
    OneFolder {
        /// As it was named first.
        first: PathBuf,
        /// As it was named then.
        second: PathBuf,
    },
    /// Somebody else removes it again and again.
    #[error("{} is removed by another process as often as it is made", .0.display())]
    Restless(PathBuf),
    /// The file system's.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// Whether what was asked for is wrong, and not the node.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::NoSource { .. }
                | Error::NoProgram(_)
                | Error::Configuration { .. }
                | Error::OneFolder { .. }
        )
    }
}

/// What can be done about a list; one that is only withheld must not be moved away.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "",
        _ => "; move it away, and all of that counts as another's",
    }
}

/// Says what was being done when the file system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: what(),
            source: source.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_of(kind: io::ErrorKind) -> String {
        let file = PathBuf::from("/bin/list");
        let source = kind.into();
        Error::List { file, source }.to_string()
    }

    #[test]
    fn only_a_list_that_is_damaged_is_to_be_moved_away() {
        assert!(said_of(io::ErrorKind::InvalidData).contains("move it away"));
        assert!(!said_of(io::ErrorKind::PermissionDenied).contains("move it away"));
    }
}
