//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::Error;

/// Adds, checks and deletes attachments in random order by many workers, kills plugins and takes
/// namespaces away meanwhile, and looks after each step and in the end what is there.
///
/// The steps are the same for the same --seed and --attachments on machines with the same backends; which
/// worker is faster, and where a kill hits, is not. Progress and findings are told on standard error, the
/// table on standard output. Nothing touches the machine's own network.
#[derive(Debug, Clone, Parser)]
#[command(name = "storms", version)]
pub struct Options {
    /// How long steps are begun, in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// Which steps are made
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many steps are made at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub workers: u8,
    /// How many attachments there are
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=800))]
    pub attachments: u16,
    /// Only the steps of that attachment's pod, as a finding tells it, beside GC
    #[arg(long, value_name = "N")]
    pub only: Option<usize>,
    /// After how many findings it ends
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub most: u64,
    /// The folder with other plugins to use instead, as /usr/lib/cni
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Findings are counted, and not told
    #[arg(long)]
    pub quiet: bool,
}

impl Options {
    /// Whether what is asked for is there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let attachments = usize::from(self.attachments);
        match self.only {
            Some(only) if only >= attachments => Err(format!(
                "--only {only}: no attachment has that number; there are 0 to {}",
                attachments.saturating_sub(1)
            )
            .into()),
            _ => Ok(()),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::parse_from(["storms"])
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds() {
        Options::command().debug_assert();
        assert_eq!(Options::default().attachments, 200);
    }

    #[test]
    fn an_attachment_that_is_not_there() {
        let check = |only: &str| Options::parse_from(["storms", "--only", only]).check();
        assert!(check("199").is_ok() && Options::default().check().is_ok());
        let refused = check("200").unwrap_err().to_string();
        assert!(refused.ends_with("there are 0 to 199"), "{refused}");
    }
}
