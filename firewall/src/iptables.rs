//! The programs: finding them, reading the table `nat`, and restoring batches of lines into it.

mod call;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::call::Call;
pub use self::call::Restoring;
use crate::deadline::Deadline;
use crate::process::Output;
use crate::rule::{Family, Listing, Rule};
use crate::{Error, Result};

/// Pauses between attempts where a program reports at once, with status 4, "try again", what others
/// did in between.
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

/// `iptables` and `iptables-restore` of one family and variant, for one verb.
#[derive(Debug)]
pub struct Tool {
    family: Family,
    reader: PathBuf,
    restorer: PathBuf,
    is_nft: bool,
    /// Whether `-C` can be believed.
    pub tests: bool,
    /// What all its programs together may take.
    pub deadline: Deadline,
    /// A restorer that waits for its lines.
    ready: RefCell<Option<Call>>,
}

impl Tool {
    /// The node's own choice, which new rules go by: the plain name.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn default_of(family: Family, deadline: Deadline) -> Result<Tool> {
        Tool::find(family, "", deadline).ok_or(Error::NoTool(plain(family)))
    }

    /// The program of that variant; where none has its name, the plain one may be of it.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn of_variant(family: Family, variant: Variant, deadline: Deadline) -> Result<Tool> {
        let suffix = match variant {
            Variant::Nft => "-nft",
            Variant::Legacy => "-legacy",
        };
        Tool::find(family, suffix, deadline).map_or_else(|| Tool::default_of(family, deadline), Ok)
    }

    /// Looks for a folder that has both programs: taken from two, they might be of two variants.
    fn find(family: Family, suffix: &str, deadline: Deadline) -> Option<Tool> {
        let reader = format!("{}{suffix}", plain(family));
        let restorer = format!("{reader}-restore");
        let folders = search_path(std::env::var_os("PATH"));
        let folder = folders
            .iter()
            .find(|folder| folder.join(&reader).is_file() && folder.join(&restorer).is_file())?;
        let reader = folder.join(reader);
        let is_nft = is_nft(&reader);
        Some(Tool {
            family,
            restorer: folder.join(restorer),
            reader,
            is_nft,
            tests: family == Family::V4 || is_nft,
            deadline,
            ready: RefCell::new(None),
        })
    }

    /// The whole table `nat`.
    ///
    /// # Errors
    /// The program's.
    pub fn list(&self) -> Result<Listing> {
        Ok(Listing::parse(&self.print("nat")?))
    }

    /// What the program prints of a table.
    ///
    /// # Errors
    /// The program's.
    pub fn print(&self, table: &str) -> Result<String> {
        let output = self.read(&["-t", table, "-S"])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether it speaks to the tables of the variant.
    pub fn is(&self, variant: Variant) -> bool {
        self.is_nft == (variant == Variant::Nft)
    }

    /// Whether the table `nat` has the chain.
    ///
    /// # Errors
    /// The program cannot be run, or does not end.
    pub fn has_chain(&self, chain: &str) -> Result<bool> {
        accepts(self.read(&["-t", "nat", "-S", chain]))
    }

    /// The path of the program that reads.
    pub fn name(&self) -> std::path::Display<'_> {
        self.reader.display()
    }

    /// The name of the program that reads.
    pub fn file_name(&self) -> String {
        let name = self.reader.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Applies the lines to the table `nat`: all of them, or none where one is refused.
    ///
    /// # Errors
    /// The program's, with the lines.
    pub fn restore(&self, batch: &[String]) -> Result<()> {
        self.begin(batch)?.end()
    }

    /// Begins to do as [`Tool::restore`] does.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn begin(&self, batch: &[String]) -> Result<Restoring> {
        let mut call = match self.ready.take() {
            Some(call) => call,
            None => self.start_restorer()?,
        };
        call.feed(batch, self.deadline);
        Ok(Restoring(call))
    }

    /// Starts the program that the first batch will need: until then it can read its libraries.
    pub fn warm_up(&self) {
        // What is wrong with it the batch will say.
        self.ready.replace(self.start_restorer().ok());
    }

    fn start_restorer(&self) -> Result<Call> {
        Call::start(self, &self.restorer, &["--noflush"])
    }

    /// Runs the program that reads to its end.
    fn read(&self, arguments: &[&str]) -> Result<Output> {
        let mut call = Call::start(self, &self.reader, arguments)?;
        call.feed(&[], self.deadline);
        call.end()
    }

    /// Whether the rule is there, asked of the program itself.
    ///
    /// # Errors
    /// The program cannot be run, or does not end.
    pub fn has_rule(&self, rule: &Rule) -> Result<bool> {
        accepts(self.restore(&[rule.test()]))
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
                Some(pause) if matches!(error, Error::Refused { .. }) => std::thread::sleep(*pause),
                _ => return Err(error),
            }
        }
    }
}

/// The program's plain name.
pub fn plain(family: Family) -> &'static str {
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

/// Whether a program took what it was asked.
fn accepts<T>(asked: Result<T>) -> Result<bool> {
    match asked {
        Ok(_) => Ok(true),
        Err(Error::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
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
            program: String::new(),
            family: Family::V4,
            batch: String::new(),
            status,
            stderr: String::new(),
        };
        assert!(may_pass(&refused(4)));
        assert!(!may_pass(&refused(1)) && !may_pass(&refused(2)));
    }

    /// Both programs are the script.
    fn stub(folder: &Path, script: &str) -> Tool {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let program = folder.join("iptables");
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).mode(0o700);
        let text = format!("#!/bin/sh\n{script}\n");
        file.open(&program)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        Tool {
            family: Family::V4,
            reader: program.clone(),
            restorer: program,
            is_nft: false,
            tests: true,
            deadline: Deadline::after(Duration::ZERO, Duration::ZERO),
            ready: RefCell::new(None),
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let tool = stub(folder.path(), "exec sleep 1000");
        // More than a pipe holds, and nobody reads it.
        let long = vec!["-N A".to_owned(); 100_000];
        let plan = |_: &Listing| (long.clone(), ());
        for done in [tool.restore(&long), tool.change(plan)] {
            let error = done.unwrap_err();
            assert!(matches!(error, Error::TimedOut { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.ends_with("iptables: not ended after 1 s, killed"),
                "{text}"
            );
        }
    }

    /// As `iptables-restore` does where a rule has the word `-h`: nothing is applied then.
    #[test]
    fn a_program_that_prints_its_help_has_not_done_what_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let tool = stub(
            folder.path(),
            "cat > /dev/null; echo; echo 'Usage: x'; exit 0",
        );
        let error = tool.restore(&["-A A -h".to_owned()]).unwrap_err();
        let text = error.to_string();
        let so = "iptables: Usage: x (exit status 0, given \"-A A -h\")";
        assert!(text.ends_with(so), "{text}");
        assert_eq!(error.of_parameters(), Some(Family::V4));
        assert!(error.may_have_changed());
    }

    #[test]
    fn a_program_that_does_not_stop_talking_is_said_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut tool = stub(folder.path(), "exec yes");
        tool.deadline = Deadline::after(Duration::ZERO, Duration::from_secs(60));
        let error = tool.list().unwrap_err();
        let text = error.to_string();
        let so = "iptables: said more than 256 MiB, not listened to any more";
        assert!(text.ends_with(so), "{text}");
    }

    #[test]
    fn a_lock_that_another_keeps_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut tool = stub(
            folder.path(),
            "echo \"$@\" >> ${0%/*}/calls; sleep 1; exit 4",
        );
        tool.deadline = Deadline::after(Duration::ZERO, Duration::from_secs(60));
        let busy = [
            tool.change(|_| (Vec::new(), ())),
            tool.has_rule(&Rule::new("A", "-j B".to_owned())).map(drop),
        ];
        for error in busy.map(Result::unwrap_err) {
            assert!(error.is_busy(), "{error}");
            assert!(error.to_string().contains("/run/xtables.lock"), "{error}");
        }
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        assert_eq!(calls, "-t nat -S -w 1\n--noflush -w 1\n");
    }
}
