//! What shells and `man` know of the command line: made from it, so that nothing can differ.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Failure;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  podnet completions bash | sudo tee /usr/share/bash-completion/completions/podnet
  podnet completions zsh | sudo tee /usr/local/share/zsh/site-functions/_podnet
  podnet completions fish | sudo tee /usr/share/fish/vendor_completions.d/podnet.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  podnet man | man -l -
  sudo podnet man --out /usr/local/share/man/man1";

/// Which shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where the pages are put.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct Pages {
    /// Write a page for each command into this folder, which is made where it is not there, and print
    /// nothing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints what completes the words of a command line.
///
/// # Errors
/// Standard output cannot be written to.
pub fn completions(asked: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(asked.shell, &mut Cli::command(), "podnet", &mut script);
    print(&script)
}

/// Prints the page of the whole, or writes those of all commands.
///
/// # Errors
/// The folder or standard output cannot be written to.
pub fn man(asked: &Pages) -> Result<(), Failure> {
    // Its page would say no more than the option of that name.
    let command = Cli::command().disable_help_subcommand(true);
    match &asked.out {
        Some(folder) => {
            let write = || {
                fs::create_dir_all(folder)?;
                clap_mangen::generate_to(command, folder)
            };
            write().map_err(|error| {
                let folder = folder.display();
                Failure::Usage(format!("--out: cannot write to {folder}: {error}"))
            })
        }
        None => {
            let mut page = Vec::new();
            let made = Man::new(command).render(&mut page);
            made.map_err(|error| Failure::Failed(error.to_string()))?;
            print(&page)
        }
    }
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    let printed = io::stdout().write_all(bytes);
    printed.map_err(|error| Failure::of_output(&error))
}
