//! What is there under a name.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Doing, Result};

/// SHA-256 of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sum([u8; 32]);

impl Sum {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Sum {
        Sum(Sha256::digest(bytes).into())
    }

    /// Of all that can be read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Sum> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Sum(hash.finalize().into())),
                length => hash.update(&buffer[..length]),
            }
        }
    }

    /// Of 64 hex digits.
    pub fn parse(text: &str) -> Option<Sum> {
        let mut bytes = [0; 32];
        let read = base16ct::lower::decode(text, &mut bytes).ok()?.len();
        (read == bytes.len()).then_some(Sum(bytes))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({self})")
    }
}

/// What is there under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A file with that content.
    File(Sum),
    /// A symbolic link with that target, wherever it leads; we make none.
    Link(Sum),
    /// A folder, or something else that is no file.
    Other,
}

impl Found {
    /// Looks at a path.
    ///
    /// # Errors
    /// The file system's; that there is nothing is none.
    pub fn at(path: &Path) -> Result<Found> {
        let doing = || format!("look at {}", path.display());
        let kind = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            metadata => metadata.doing(doing)?.file_type(),
        };
        if kind.is_symlink() {
            let target = fs::read_link(path).doing(doing)?;
            return Ok(Found::Link(Sum::of(target.as_os_str().as_bytes())));
        }
        if !kind.is_file() {
            return Ok(Found::Other);
        }
        let sum = File::open(path).and_then(Sum::of_reader);
        Ok(Found::File(
            sum.doing(|| format!("read {}", path.display()))?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Sum::of(b"").to_string(), empty);
        assert_eq!(Sum::parse(empty), Some(Sum::of(b"")));
        assert_eq!(Sum::of_reader(&b"abc"[..]).unwrap(), Sum::of(b"abc"));
        for bad in [
            "",
            "e3",
            &empty[1..],
            &"x".repeat(64),
            &format!("{empty}00"),
        ] {
            assert_eq!(Sum::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_kind() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Found::at(&folder.path().join(name)).unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        assert_eq!(at("none"), Found::Nothing);
        assert_eq!(at("file"), Found::File(Sum::of(b"x")));
        assert_eq!(at("link"), Found::Link(Sum::of(b"nowhere")));
        assert_eq!(at("."), Found::Other);
        assert!(Found::at(&folder.path().join("file/x")).is_err());
    }
}
