//! The programs: finding them, reading the table `nat`, and restoring batches of lines into it.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use iptables::IPTables;

use crate::rule::{Family, Listing, Rule};
use crate::{Error, Result};

/// Seconds that a program of the legacy variant waits for /run/xtables.lock before it gives up
/// with status 4; the nft variant takes no lock and ignores it.
const WAIT: &str = "5";

/// Pauses between attempts: the nft variant reports a change that another made in between, the
/// legacy variant a lock held too long, both with status 4, "try again".
const BACKOFF: [Duration; 6] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// `RESOURCE_PROBLEM` of iptables' xtables.h.
const TRY_AGAIN: i32 = 4;

/// Which of the kernel's two tables named `nat` a program speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// nf_tables.
    Nft,
    /// ip_tables and ip6_tables.
    Legacy,
}

impl Variant {
    /// Both.
    pub const ALL: [Variant; 2] = [Variant::Nft, Variant::Legacy];
}

/// `iptables` and `iptables-restore` of one family and variant.
///
/// The `iptables` crate reads. It does not write: it cannot restore a batch, and it takes a quoted
/// comment apart.
#[derive(Debug)]
pub struct Tool {
    reader: &'static str,
    restorer: PathBuf,
    /// Whether `-C` can be believed.
    pub tests: bool,
}

impl Tool {
    /// The node's own choice, which new rules go by: the plain name.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn default_of(family: Family) -> Result<Tool> {
        Tool::find(family, "").ok_or(Error::NoTool(plain(family)))
    }

    /// The program of that variant; where none has its name, the plain one may be of it.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn of_variant(family: Family, variant: Variant) -> Result<Tool> {
        let suffix = match variant {
            Variant::Nft => "-nft",
            Variant::Legacy => "-legacy",
        };
        Tool::find(family, suffix).map_or_else(|| Tool::default_of(family), Ok)
    }

    /// Looks for a folder that has both programs: taken from two, they might be of two variants.
    fn find(family: Family, suffix: &str) -> Option<Tool> {
        let reader = format!("{}{suffix}", plain(family));
        let restorer = format!("{reader}-restore");
        let folders = search_path(std::env::var_os("PATH"));
        let folder = folders
            .iter()
            .find(|folder| folder.join(&reader).is_file() && folder.join(&restorer).is_file())?;
        let reader = folder.join(reader);
        Some(Tool {
            tests: family == Family::V4 || is_nft(&reader),
            restorer: folder.join(restorer),
            // The crate wants a 'static name; a plugin lives for one call.
            reader: reader.to_str()?.to_owned().leak(),
        })
    }

    /// The whole table `nat`.
    ///
    /// # Errors
    /// The program's.
    pub fn list(&self) -> Result<Listing> {
        let lines = self.crate_reader().list_table("nat");
        let lines = lines.map_err(|error| self.not_run(error))?;
        let listing = Listing::parse(&lines.join("\n"));
        if listing.has_chain("POSTROUTING") {
            return Ok(listing);
        }
        // The crate does not say that the program failed, but a table has its built-in chains.
        let output = Command::new(self.reader)
            .args(["-t", "nat", "-w", WAIT, "-S"])
            .output()
            .map_err(|error| self.not_run(error.into()))?;
        let output = accepted(format!("{} -t nat -S", self.reader), output)?;
        Ok(Listing::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Whether the table `nat` has the chain.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn has_chain(&self, chain: &str) -> Result<bool> {
        let mut reader = self.crate_reader();
        // Else the program asks name servers for every address in the chain.
        reader.set_numeric(true);
        let found = reader.chain_exists("nat", chain);
        found.map_err(|error| self.not_run(error))
    }

    /// The crate on this program. Its `new` would start one more process, to learn the version.
    ///
    /// Of its methods only those are used that take no rule: the others bring in a regular
    /// expression engine, a third of a plugin's size.
    fn crate_reader(&self) -> IPTables {
        IPTables {
            cmd: self.reader,
            has_check: true,
            has_wait: true,
            // `-S` with `-n` is refused.
            is_numeric: false,
        }
    }

    fn not_run(&self, error: Box<dyn std::error::Error>) -> Error {
        Error::Io {
            command: self.reader.to_owned(),
            source: match error.downcast::<std::io::Error>() {
                Ok(source) => *source,
                Err(other) => std::io::Error::other(other.to_string()),
            },
        }
    }

    /// The path of the program that reads.
    pub fn name(&self) -> &str {
        self.reader
    }

    /// Applies the lines to the table `nat`: all of them, or none where one is refused.
    ///
    /// # Errors
    /// The program's, with the lines.
    pub fn restore(&self, batch: &[String]) -> Result<()> {
        let run = || {
            let mut child = Command::new(&self.restorer)
                .args(["--noflush", "-w", WAIT])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // One that stops reading says why by its exit status.
                let text = format!("*nat\n{}\nCOMMIT\n", batch.join("\n"));
                let _ = stdin.write_all(text.as_bytes());
            }
            child.wait_with_output()
        };
        let program = self.restorer.display();
        let output = run().map_err(|source| Error::Io {
            command: program.to_string(),
            source,
        })?;
        let shown = shorten(&batch.join("; "));
        accepted(format!("{program} --noflush <<< {shown:?}"), output).map(drop)
    }

    /// Whether the rule is there, asked of the program itself.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn has_rule(&self, rule: &Rule) -> Result<bool> {
        match self.restore(&[rule.test()]) {
            Ok(()) => Ok(true),
            Err(Error::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists the table and applies what `plan` makes of it; again from the start when it was
    /// refused because of what others did in between. Returns what `plan` said beside the batch
    /// that was applied.
    ///
    /// # Errors
    /// The program's last refusal.
    pub fn change<T>(&self, plan: impl Fn(&Listing) -> (Vec<String>, T)) -> Result<T> {
        let mut pauses = BACKOFF.iter();
        let mut refused: Option<Vec<String>> = None;
        loop {
            let attempt = self.list().map(|listing| plan(&listing));
            let error = match attempt {
                Err(error) => error,
                Ok((batch, said)) if batch.is_empty() => return Ok(said),
                Ok((batch, said)) => match self.restore(&batch) {
                    Ok(()) => return Ok(said),
                    // The same lines refused twice: nobody came in between.
                    Err(error) if refused.as_ref() == Some(&batch) && !may_pass(&error) => {
                        return Err(error);
                    }
                    Err(error) => {
                        refused = Some(batch);
                        error
                    }
                },
            };
            match pauses.next() {
                Some(pause) if !matches!(error, Error::Io { .. }) => std::thread::sleep(*pause),
                _ => return Err(error),
            }
        }
    }
}

/// The program's plain name.
fn plain(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// Whether a program is surely of the nft variant, by the file that its name leads to. The `-C` of
/// the legacy variant's ip6tables 1.8.9 compares the wrong bytes: it takes another port or another
/// mark for the same.
fn is_nft(program: &Path) -> bool {
    let file = program.canonicalize().unwrap_or_default();
    file.file_name()
        .is_some_and(|name| name.to_string_lossy().contains("nft"))
}

/// The folders of PATH, then those of administration, which a runtime's PATH may lack.
fn search_path(path: Option<OsString>) -> Vec<PathBuf> {
    let path = path.unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .chain(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned()))
        .collect()
}

fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            status: TRY_AGAIN,
            ..
        }
    )
}

fn accepted(command: String, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::Refused {
        command,
        status: output.status.code().unwrap_or(-1),
        stderr: one_line(&String::from_utf8_lossy(&output.stderr)),
    })
}

/// The lines that say something, as one.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// A thousand ports make no readable message.
fn shorten(text: &str) -> String {
    const MAX: usize = 1000;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    text.chars().take(MAX).chain(" …".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_administration_come_last_and_relative_ones_not_at_all() {
        assert_eq!(
            search_path(Some("/opt/bin::bin:/usr/bin".into())),
            ["/opt/bin", "/usr/bin", "/usr/sbin", "/sbin"].map(PathBuf::from)
        );
        assert_eq!(search_path(None), ["/usr/sbin", "/sbin"].map(PathBuf::from));
    }

    #[test]
    fn only_status_4_may_pass() {
        let refused = |status| Error::Refused {
            command: String::new(),
            status,
            stderr: String::new(),
        };
        assert!(may_pass(&refused(4)));
        assert!(!may_pass(&refused(1)) && !may_pass(&refused(2)));
    }

    #[test]
    fn what_a_program_said_becomes_one_line() {
        assert_eq!(
            one_line("\nunknown option\n  line: 9 \n\n"),
            "unknown option; line: 9"
        );
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn a_long_batch_is_shortened() {
        assert_eq!(shorten("abc"), "abc");
        assert_eq!(shorten(&"é".repeat(2000)).chars().count(), 1002);
    }
}
