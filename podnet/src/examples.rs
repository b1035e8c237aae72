//! Examples of the commands that have no file of their own, for their help.

pub const ADD: &str = "\
Examples:
  sudo podnet add k8nd-pod-network /run/netns/blue
  sudo podnet add k8nd-pod-network /run/netns/blue --port 8080:80/tcp --ingress 10M --egress 10M
  sudo podnet add k8nd-pod-network /run/netns/blue --container-id 3f2a9c --ifname net1 --output table
  sudo podnet add k8nd-pod-network /run/netns/blue --conf 10-k8nd.conflist --cni-path /opt/cni/bin

";

pub const CHECK: &str = "\
Examples:
  sudo podnet check k8nd-pod-network /run/netns/blue
  sudo podnet check k8nd-pod-network --all
  sudo podnet check --all
  sudo podnet check --all --output json

";

pub const DEL: &str = "\
Examples:
  sudo podnet del k8nd-pod-network /run/netns/blue
  sudo podnet del k8nd-pod-network /run/netns/none --container-id 3f2a9c --ifname net1

";

pub const GC: &str = "\
Examples:
  sudo podnet gc k8nd-pod-network --dry-run
  sudo podnet gc k8nd-pod-network --valid 3f2a9c/eth0 --valid 3f2a9c/net1
  sudo podnet gc k8nd-pod-network --none-valid
  sudo podnet gc k8nd-pod-network --from-cri unix:///run/containerd/containerd.sock --dry-run
  sudo podnet gc --all --from-cri unix:///run/containerd/containerd.sock

Exit status: 0 done; 1 something could not be read or removed, and all else was done; 2 nothing was done: wrong \
options, no list of the runtime, or nothing is known.";

pub const STATUS: &str = "\
Examples:
  sudo podnet status k8nd-pod-network
  sudo podnet status k8nd-pod-network --conf-dir /etc/cni/net.d && echo ready

";

pub const VERSION: &str = "\
Examples:
  podnet version k8nd-pod-network
  podnet version k8nd-pod-network --output json | jq .

";

pub const PLAN: &str = "\
Examples:
  podnet plan podcidrs -f cluster.yaml
  podnet plan overlap --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/16
  podnet plan write -f cluster.yaml --out pod-network";

pub const DEMO: &str = "\
Examples:
  sudo podnet demo
  sudo podnet demo --conf /etc/cni/net.d/10-k8nd.conflist --cni-path /opt/cni/bin
  sudo podnet demo --keep
  sudo podnet demo --remove";

pub const ROUTES_SHOW: &str = "\
Examples:
  podnet routes show -f cluster.yaml
  podnet routes show -f cluster.yaml --for node-1 | grep ^missing

";

pub const ROUTES_DIFF: &str = "\
Examples:
  podnet routes diff -f cluster.yaml
  podnet routes diff -f cluster.yaml --for node-1 --output json

";

pub const ROUTES_APPLY: &str = "\
Examples:
  sudo podnet routes apply -f cluster.yaml --dry-run
  sudo podnet routes apply -f cluster.yaml
  sudo podnet routes apply --pod-cidr 10.244.0.0/16 --node node-0=192.168.10.10 --node node-1=192.168.10.11

";

pub const ROUTES_REMOVE: &str = "\
Examples:
  sudo podnet routes remove --dry-run
  sudo podnet routes remove

";

pub const ALL: &str = "\
Examples:
  sudo podnet add k8nd-pod-network /run/netns/blue --port 8080:80/tcp
  sudo podnet trace 10.244.1.7 --to 192.0.2.7:443
  sudo podnet doctor -f cluster.yaml
  podnet plan podcidrs -f cluster.yaml

";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, Parser};

    use crate::cli::Cli;

    /// The end of a command's help.
    fn after(command: &Command) -> String {
        let help = command.get_after_help().map(ToString::to_string);
        help.unwrap_or_default()
    }

    /// The lines of a help's examples, those that go on put together.
    fn examples(help: &str) -> Vec<String> {
        let examples = help.split_once("Examples:\n").map_or("", |(_, rest)| rest);
        let examples = examples.replace("\\\n", " ");
        let examples = examples.lines().take_while(|line| line.starts_with("  "));
        examples.map(|line| line.trim().to_owned()).collect()
    }

    /// The calls of `podnet` in a line of shell.
    fn calls(line: &str) -> Vec<Vec<&str>> {
        let line = line.split(" #").next().unwrap_or_default();
        let commands = line.split(" | ").flat_map(|part| part.split(" && "));
        let words = commands.map(|command| {
            let command = command.split(" > ").next().unwrap_or_default();
            let words = command.split_whitespace();
            words.skip_while(|word| *word == "sudo").collect::<Vec<_>>()
        });
        words
            .filter(|words| words.first() == Some(&"podnet"))
            .collect()
    }

    /// Every command with the words that lead to it.
    fn walk(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Command)>) {
        found.push((path.to_vec(), command.clone()));
        for inner in command.get_subcommands() {
            if inner.get_name() != "help" {
                let path = [path, &[inner.get_name().to_owned()]].concat();
                walk(inner, &path, found);
            }
        }
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let mut commands = Vec::new();
        walk(&Cli::command(), &["podnet".to_owned()], &mut commands);
        assert!(commands.len() > 20, "{}", commands.len());
        let mut failed = Vec::new();
        for (path, command) in commands {
            let examples = examples(&after(&command));
            let of_path = |words: &Vec<&str>| {
                words.starts_with(&path.iter().map(String::as_str).collect::<Vec<_>>())
            };
            if !examples.iter().any(|line| calls(line).iter().any(of_path)) {
                failed.push(format!("{}: no example of it", path.join(" ")));
            }
            for line in &examples {
                let calls = calls(line);
                let taken = calls.iter().all(|words| Cli::try_parse_from(words).is_ok());
                if calls.is_empty() || !taken {
                    failed.push(format!("{}: is not taken: {line}", path.join(" ")));
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    fn lines_of_shell() {
        assert_eq!(
            calls("a | sudo podnet b -f - > c # d"),
            [["podnet", "b", "-f", "-"]]
        );
        assert_eq!(calls("podnet a && podnet b").len(), 2);
        assert_eq!(calls("sudo sh").len(), 0);
        assert_eq!(examples("x\nExamples:\n  a \\\n    b\n\n  c"), ["a      b"]);
    }
}
