//! The command line, and what each command does.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::{Failure, complain};
use crate::network::{self, Network};
use crate::output::say;
use crate::plans::{self, Plans};
use crate::routes::{self, Routes};
use crate::target::{self, Target, Targets};
use crate::{agent, demo, doctor, examples, garbage, install, lint, shell, table, taints, trace};

const EXIT_STATUS: &str = "Exit status: 0 done; 1 a plugin refused, or CHECK found something gone \
or changed; 2 wrong options, environment or configuration, and no plugin was called.";

/// Drives, demonstrates and explains a node's CNI chain
#[derive(Debug, Parser)]
#[command(version, after_help = [examples::ALL, EXIT_STATUS].concat())]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attach a namespace to a network: call ADD of each plugin, print the last result, cache it
    ///
    /// When a plugin fails, what those before it have made stays until `podnet del`.
    #[command(after_help = [examples::ADD, EXIT_STATUS].concat())]
    Add(Add),
    /// Compare an attachment, or all, with what ADD made, by CHECK of each plugin
    #[command(after_help = [examples::CHECK, EXIT_STATUS].concat())]
    Check(Check),
    /// Remove an attachment, by DEL of each plugin in reverse order; the namespace may be gone
    #[command(after_help = [examples::DEL, EXIT_STATUS].concat())]
    Del(Target),
    /// Remove what attachments that are no more have left in a network, by GC of each plugin
    ///
    /// An attachment lives when it is in the cache and its namespace is there, or when it is told.
    /// Those in the cache that do not are removed by DEL. With --from-cri a container runtime says
    /// who lives: then those of its sandboxes do, and what the cache, a reservation or a link names
    /// beside them is removed by DEL, whatever the version of the network.
    #[command(after_help = examples::GC)]
    Gc(Gc),
    /// Ask the plugins of a network whether they can serve ADD, by STATUS of each
    #[command(after_help = [examples::STATUS, EXIT_STATUS].concat())]
    Status(Network),
    /// List the versions of the specification that the plugins of a network speak
    #[command(after_help = [examples::VERSION, EXIT_STATUS].concat())]
    Version(Version),
    /// Plan a cluster's pod network: ranges, conflists, routes; nothing is touched
    #[command(after_help = examples::PLAN)]
    Plan(Plans),
    /// Say what becomes of pods' host ports and bandwidth annotations, and what is wrong with conflists
    Lint(lint::Asked),
    /// Compare this node's routes to other nodes' pods with the plan, and make them so
    Routes(Routes),
    /// Keep this node's pod network right on Kubernetes
    Agent(agent::Asked),
    /// Say of a node's taints which are the controller's and which a person's
    Taints(taints::Asked),
    /// Find what is wrong with this node's pod network, and the command that mends it
    Doctor(doctor::Asked),
    /// Show the path of a pod's packets, both ways, hop by hop
    Trace(trace::Asked),
    /// Put the plugins, podnet and a configuration in their places on this node
    Install(install::Install),
    /// Take back what install has put in place
    Uninstall(install::Uninstall),
    /// Show the whole chain at work in namespaces of its own
    #[command(after_help = examples::DEMO)]
    Demo(demo::Options),
    /// Print what completes podnet's words in a shell
    Completions(shell::Completions),
    /// Print podnet's manual page, or write those of all commands
    Man(shell::Pages),
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    targets: Targets,
    /// How what was found of all is printed [default: table]
    #[arg(long, value_enum, conflicts_with = "netns")]
    output: Option<Output>,
}

#[derive(Debug, Args)]
struct Gc {
    #[command(flatten)]
    asked: garbage::Collect,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Args)]
struct Version {
    #[command(flatten)]
    network: Network,
    /// Accepted as with the other commands, and not looked at
    netns: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Args)]
struct Format {
    /// How the answer is printed [default: table on a terminal, else json]
    #[arg(long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Json,
    Table,
}

impl Format {
    fn is_table(&self) -> bool {
        match self.output {
            Some(Output::Json) => false,
            Some(Output::Table) => true,
            None => io::stdout().is_terminal(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Whatever keeps it from being done.
pub fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Add(Add { target, format }) => {
            let (version, result) = target::add(target)?;
            if format.is_table() {
                say(&table::result(&result))?;
            } else {
                say(&cni::pretty(&result.to_json(version)?))?;
            }
        }
        Command::Check(Check { targets, output }) => {
            if let Some(every) = target::check(targets)? {
                match output {
                    Some(Output::Json) => say(&cni::pretty(&every.to_json()))?,
                    Some(Output::Table) | None => say(&table::checked(&every.checked))?,
                }
                every.unreadable.iter().for_each(complain);
                if !every.is_good() {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        Command::Del(target) => target::del(target)?,
        Command::Gc(Gc { asked, format }) => garbage::gc(asked, |known| {
            if format.is_table() {
                say(&table::known(known, asked.is_of_all()))
            } else {
                say(&cni::pretty(&garbage::to_json(known, asked.is_of_all())))
            }
        })?,
        Command::Status(network) => network::status(network)?,
        Command::Version(Version {
            network, format, ..
        }) => {
            let answers = network::versions(network)?;
            if format.is_table() {
                say(&table::versions(&answers))?;
            } else {
                say(&cni::pretty(&network::to_json(&answers)))?;
            }
            if answers.iter().any(|(_, answer)| answer.is_err()) {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Plan(plans) => return plans::run(plans),
        Command::Routes(routes) => return routes::run(routes),
        Command::Agent(asked) => return agent::run(asked),
        Command::Taints(asked) => return taints::run(asked),
        Command::Doctor(asked) => return doctor::run(asked),
        Command::Lint(asked) => return lint::run(asked),
        Command::Trace(asked) => return trace::run(asked),
        Command::Install(asked) => install::install(asked)?,
        Command::Uninstall(asked) => return install::uninstall(asked),
        Command::Completions(asked) => shell::completions(asked)?,
        Command::Man(asked) => shell::man(asked)?,
        Command::Demo(options) => {
            let holds = demo::run(options).map_err(of_demo)?;
            if !holds {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn of_demo(error: Box<dyn std::error::Error>) -> Failure {
    if let Some(interrupted) = error.downcast_ref::<demo::Interrupted>() {
        return Failure::Ended(interrupted.exit_status());
    }
    match error.downcast_ref::<io::Error>() {
        Some(output) if output.kind() == io::ErrorKind::BrokenPipe => Failure::of_output(output),
        _ => Failure::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_plans_and_lints_has_examples() {
        let cli = Cli::command();
        let of = |name: &str| cli.find_subcommand(name).unwrap();
        let all = of("plan").get_subcommands();
        let all: Vec<_> = all.chain([of("taints"), of("lint")]).collect();
        assert_eq!(all.len(), 9);
        for command in all {
            let help = command.get_after_help().unwrap().to_string();
            let name = command.get_name();
            assert!(help.starts_with("Examples:\n  "), "{name}: {help}");
            assert!(
                help.contains(&format!("podnet plan {name}"))
                    || help.contains(&format!("podnet {name}"))
            );
            assert!(help.contains("Exit status: 0"), "{name}: {help}");
        }
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        for (line, taken) in [
            ("add n /run/netns/p", true),
            (
                "add n /run/netns/p --port 8080:80/tcp --port 53:53/udp --ingress 1M --egress 2M",
                true,
            ),
            ("del n /run/netns/p --container-id c --conf f", true),
            ("check --all", true),
            ("check --all --output json", true),
            ("check n --all", true),
            ("gc n", true),
            (
                "gc n --valid a/eth0 --valid b/net1 --dry-run --output json",
                true,
            ),
            ("gc n --none-valid --cache-dir d", true),
            ("gc n --from-cri unix:///run/c.sock --grace 0", true),
            ("gc --all --from-cri unix:///run/c.sock --dry-run", true),
            (
                "gc --all --from-cri unix:///run/c.sock --node-root /node",
                true,
            ),
            ("gc --all", false),
            ("gc n --all --from-cri unix:///run/c.sock", false),
            ("gc n --from-cri /run/c.sock", false),
            ("gc n --grace 0", false),
            ("gc n --from-cri unix:///c --cri-timeout 0", false),
            ("status n --conf f", true),
            ("version n", true),
            ("version n /run/netns/p --output table", true),
            ("plan podcidrs -f cluster.yaml", true),
            (
                "plan podcidrs --pod-cidr 10.0.0.0/8 --node a=10.0.0.1 --node b --format patch",
                true,
            ),
            ("routes show -f cluster.yaml", true),
            ("routes diff -f cluster.yaml --for a --output json", true),
            (
                "routes apply --pod-cidr 10.0.0.0/8 --node a=10.0.0.1 --dry-run",
                true,
            ),
            ("routes remove --dry-run", true),
            ("routes remove -f cluster.yaml", false),
            ("routes show --dry-run", false),
            ("routes", false),
            ("plan", false),
            ("plan podcidrs --format x", false),
            ("add n", false),
            ("check n", false),
            ("check", false),
            ("check n /run/netns/p --all", false),
            ("check --all --port 80:80", false),
            ("gc", false),
            ("gc n --valid a", false),
            ("status", false),
            ("check n /run/netns/p --output json", false),
            ("add n /run/netns/p --port 80", false),
            ("add n /run/netns/p --ingress fast", false),
            ("", false),
        ] {
            assert_eq!(is_taken(line), taken, "{line}");
        }
    }

    /// As they stand there, with values for what stands for one.
    #[test]
    fn what_is_to_be_done_by_symptom() {
        let page = include_str!("../../docs/troubleshooting.md");
        let (blocks, texts): (Vec<_>, Vec<_>) = page
            .split("```")
            .enumerate()
            .partition(|(at, _)| at % 2 == 1);
        let quoted = texts
            .iter()
            .flat_map(|(_, text)| text.split('`').skip(1).step_by(2));
        let lines = blocks.iter().flat_map(|(_, block)| block.lines());
        let lines = lines.filter_map(|line| line.split('#').next());
        let of_podnet = quoted.chain(lines).filter_map(|line| {
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            line.strip_prefix("podnet ")
        });
        let all: Vec<String> = of_podnet
            .map(|it| it.replace("ADDRESS", "10.0.0.1"))
            .collect();
        assert!(all.len() > 20, "{all:?}");
        for line in all {
            assert!(is_taken(&line), "{line}");
        }
    }

    #[test]
    fn what_the_agent_takes() {
        for (line, taken) in [
            ("agent --plan --nodes nodes.json --node-name a", true),
            ("agent --nodes nodes.json", false),
            ("agent", true),
            ("agent --plan", true),
            (
                "agent --kubeconfig f --node-name a --resync 60 --listen [::]:9462",
                true,
            ),
            (
                "agent --from-cri unix:///run/c.sock --install-from /plugins",
                true,
            ),
            (
                "agent --from-cri unix:///run/c.sock --node-root /node",
                true,
            ),
            ("agent --node-root /node", false),
            ("agent --resync 0", false),
            ("agent --listen 9462", false),
            ("agent --plan --nodes a --kubeconfig b", false),
        ] {
            assert_eq!(is_taken(line), taken, "{line}");
        }
    }

    fn is_taken(line: &str) -> bool {
        let words = std::iter::once("podnet").chain(line.split_whitespace());
        Cli::try_parse_from(words).is_ok()
    }

    #[test]
    fn what_doctor_trace_and_the_shell_take() {
        for (line, taken) in [
            ("doctor", true),
            ("doctor -f cluster.yaml --for a --output json", true),
            (
                "doctor --fix --yes --conf-dir c --cni-path b --cache-dir d",
                true,
            ),
            (
                "doctor --probe blue --peer b --peer-pod 10.0.0.2 --outside fd00::1",
                true,
            ),
            ("doctor --agent [::1]:9463", true),
            ("doctor --agent 9463", false),
            ("doctor --peer b", false),
            ("doctor --yes", false),
            ("trace 10.244.0.2 --to [fd00::1]:80/udp --output json", true),
            ("trace pod -f cluster.yaml --for a --cache-dir d", true),
            ("trace pod --to 10.244.0.2/24", false),
            ("trace", false),
            ("completions fish", true),
            ("completions", false),
            ("completions sh", false),
            ("man --out d", true),
        ] {
            assert_eq!(is_taken(line), taken, "{line}");
        }
    }
}
