//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::case::Pattern;

/// Fails the plugins at every system call, one fault at a time, and looks what one DEL or GC leaves.
///
/// A case's name says all of it, and --only with that name makes it again:
/// SETTING/VERB/PLUGIN/FAULT/AFTER/PROCESS.CALL.NTH, as nft-dual/ADD/bridge/kill/del/0.44.7: the seventh
/// time that the plugin itself makes call 44. Progress and findings are told on standard error, the table
/// on standard output. Nothing touches the machine's own network.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "faults", version)]
pub struct Options {
    /// Only the cases whose names begin so; `*` stands for any part, or for any end of one
    #[arg(long, value_name = "NAME", default_value = "*")]
    pub only: Pattern,
    /// So many points for each setting, verb, plugin, kind of fault and what comes after, instead of all
    #[arg(long, value_name = "N")]
    pub sample: Option<usize>,
    /// Which points a sample has
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many cases are made at a time, each on a node of its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub jobs: u8,
    /// The folder with other plugins to fail instead, as /usr/lib/cni
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds() {
        Options::command().debug_assert();
    }
}
