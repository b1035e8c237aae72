//! Files that a person names: whole, within bounds, and never waited for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::failure::Failure;

/// How many bytes a file may have: `kubectl get nodes -o json` of five thousand nodes prints less.
const MOST: u64 = 256 << 20;
/// Where descriptors stand that are open already, as a shell's `<(command)`.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// What errors call a file, and what is in it; `-` is standard input.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<(String, String), Failure> {
    let (name, read) = if file == Path::new("-") {
        let bytes = within(io::stdin(), MOST);
        ("standard input".to_owned(), bytes.and_then(utf8))
    } else {
        (file.display().to_string(), text(file))
    };
    match read {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::Usage(format!("cannot read {name}: {error}"))),
    }
}

/// The text of a file.
///
/// # Errors
/// As [`bytes`]; it is no text.
pub fn text(file: &Path) -> io::Result<String> {
    bytes(file).and_then(utf8)
}

/// What is in a file. A device may have no end, and a named pipe is waited for until somebody opens
/// its other end, so neither is read.
///
/// # Errors
/// It cannot be read; it is no regular file; it is too large.
pub fn bytes(file: &Path) -> io::Result<Vec<u8>> {
    let is_open = DESCRIPTORS.iter().any(|open| file.starts_with(open));
    if !is_open && !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    within(File::open(file)?, MOST)
}

fn within(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > most {
        let reason = format!("it has more than {} MiB", most >> 20);
        return Err(io::Error::other(reason));
    }
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let most = 2 << 20;
        let error = within(io::repeat(0), most).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 2 MiB");
        let just = io::repeat(b'a').take(most);
        assert_eq!(within(just, most).unwrap().len() as u64, most);
        assert!(utf8(vec![0xff]).is_err());
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [Path::new("/dev/zero"), folder.path()] {
            let error = bytes(path).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file");
        }
        let missing = bytes(&folder.path().join("a")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
