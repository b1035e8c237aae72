//! The rules of a table as `iptables -S` prints them.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::packet::{Action, Condition, Gate, Insertion, Name, Step, Test};
use super::shell::quote;
use crate::rule::{Family, words};

/// Where all come in, before it is known where they go.
pub const EARLY: &str = "PREROUTING";
/// Where forwarded packets come in.
pub const ENTRANCE: &str = "FORWARD";
/// Where all come in that leave the node.
pub const EXIT: &str = "POSTROUTING";

/// Targets of iptables after which the next rule is asked.
pub(super) const GOES_ON: [&str; 16] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "DSCP",
    "LOG",
    "MARK",
    "NFLOG",
    "RATEEST",
    "SECMARK",
    "SET",
    "TCPMSS",
    "TOS",
    "TRACE",
    "TTL",
];

/// What a table decides on packets that come in by a chain; `None` where it has no such chain.
/// `program` is the name of the one that printed it.
pub fn gate(
    family: Family,
    program: &str,
    (table, entrance): (&str, &str),
    text: &str,
) -> Option<Gate> {
    let mut chains: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    let mut drops = None;
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("-P", rest)) => {
                let (chain, policy) = rest.split_once(' ').unwrap_or((rest, ""));
                if chain == entrance {
                    drops = Some(policy.starts_with("DROP"));
                }
                chains.entry(chain.to_owned()).or_default();
            }
            Some(("-N", chain)) => {
                chains.entry(chain.to_owned()).or_default();
            }
            _ => {}
        }
    }
    for line in text.lines() {
        let Some((chain, spec)) = line.strip_prefix("-A ").map(split) else {
            continue;
        };
        let (conditions, action) = read(spec, &|name| chains.contains_key(name));
        let step = Step {
            conditions,
            action,
            text: line.to_owned(),
            removal: format!("{program} -t {table} -D {}{}", quote(chain), quoted(spec)),
        };
        chains.entry(chain.to_owned()).or_default().push(step);
    }
    Some(Gate {
        families: vec![family],
        name: format!("{program}, table {table}"),
        drops: drops?,
        entrance: entrance.to_owned(),
        is_early: entrance == EARLY,
        chains,
        insertion: Insertion::Iptables {
            program: program.to_owned(),
            table: table.to_owned(),
        },
    })
}

/// The words of a rule for a shell, each with a space before it.
fn quoted(spec: &str) -> String {
    let words = words(spec).into_iter();
    words.map(|word| format!(" {}", quote(&word))).collect()
}

fn split(rest: &str) -> (&str, &str) {
    rest.split_once(' ').unwrap_or((rest, ""))
}

/// What a rule asks and does. Options of its target come last, and ask nothing.
fn read(spec: &str, is_chain: &dyn Fn(&str) -> bool) -> (Vec<Condition>, Action) {
    let words = words(spec);
    let mut words = words.iter().map(String::as_str);
    let mut conditions = Vec::new();
    let mut not = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "!" => {
                not = true;
                continue;
            }
            "-j" => return (conditions, action(value(), is_chain)),
            "-g" => return (conditions, Action::Goto(value().to_owned())),
            // What the module asks follows.
            "-m" | "--comment" => drop(value()),
            "-s" => conditions.push(net(value(), not, Test::Source)),
            "-d" => conditions.push(net(value(), not, Test::Destination)),
            "-i" => conditions.push(is(Test::Input(name(value())), not)),
            "-o" => conditions.push(is(Test::Output(name(value())), not)),
            "--ctstate" | "--state" => conditions.push(state(value(), not)),
            "--mark" => conditions.push(mark(value(), not)),
            // Protocols, and whatever else; values of theirs are no options.
            word if word.starts_with('-') => conditions.push(Condition::Maybe),
            _ => {}
        }
        not = false;
    }
    (conditions, Action::Continue)
}

fn action(target: &str, is_chain: &dyn Fn(&str) -> bool) -> Action {
    match target {
        "ACCEPT" => Action::Accept,
        "DROP" | "REJECT" => Action::Drop,
        "RETURN" => Action::Return,
        "MASQUERADE" | "SNAT" => Action::Translate,
        chain if is_chain(chain) => Action::Jump(chain.to_owned()),
        target if GOES_ON.contains(&target) => Action::Continue,
        _ => Action::Unsure,
    }
}

fn is(test: Test, not: bool) -> Condition {
    Condition::Is { test, not }
}

fn net(text: &str, not: bool, test: impl Fn(IpNet) -> Test) -> Condition {
    match text.parse() {
        Ok(net) => is(test(net), not),
        // With a mask that is no prefix.
        Err(_) => Condition::Maybe,
    }
}

/// A `+` at the end stands for any more letters.
fn name(text: &str) -> Name {
    let beginning = text.strip_suffix('+');
    Name {
        text: beginning.unwrap_or(text).to_owned(),
        begins: beginning.is_some(),
    }
}

/// `VALUE` or `VALUE/MASK`, in hexadecimal.
fn mark(text: &str, not: bool) -> Condition {
    let value = text.split('/').next().unwrap_or_default();
    let digits = value.strip_prefix("0x").unwrap_or(value);
    match u32::from_str_radix(digits, 16) {
        Ok(value) => Condition::Unmarked((value == 0) != not),
        Err(_) => Condition::Maybe,
    }
}

/// Whether a connection's first packet is meant. What is said of its translation is not known.
fn state(list: &str, not: bool) -> Condition {
    let mut states = list.split(',');
    if states.clone().any(|state| state == "NEW") {
        is(Test::New(true), not)
    } else if states.any(|state| matches!(state, "DNAT" | "SNAT")) {
        Condition::Maybe
    } else {
        is(Test::New(false), not)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Packet;
    use super::*;

    fn packet(input: &str, output: &str, source: &str, destination: &str) -> Packet {
        Packet {
            input: input.to_owned(),
            output: output.to_owned(),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        }
    }

    /// Who drops a pod's packet to the outside, and what mends that.
    fn out(text: &str) -> Option<(String, Vec<String>)> {
        let gate = gate(Family::V4, "iptables", ("filter", ENTRANCE), text).unwrap();
        let packet = packet("cni0", "eth0", "10.1.0.2", "192.0.2.1");
        let dropped = gate.drops(&packet, "10.1.0.0/24".parse().unwrap())?;
        Some((dropped.by, dropped.mend))
    }

    #[test]
    fn the_policy() {
        let (by, mend) = out("-P INPUT DROP\n-P FORWARD DROP\n").unwrap();
        assert_eq!(
            by,
            "iptables, table filter: policy drop, and no rule accepts it"
        );
        assert_eq!(
            mend,
            [
                "iptables -t filter -I FORWARD -s 10.1.0.0/24 -j ACCEPT",
                "iptables -t filter -I FORWARD -d 10.1.0.0/24 -j ACCEPT"
            ]
        );
        assert_eq!(out("-P INPUT DROP\n-P FORWARD ACCEPT\n"), None);
    }

    #[test]
    fn firewalls_as_people_have_them() {
        let drop = "-P FORWARD DROP\n";
        for (rules, dropped) in [
            ("-A FORWARD -i cni0 -j ACCEPT", false),
            ("-A FORWARD -s 10.1.0.0/16 -j ACCEPT", false),
            ("-A FORWARD -d 10.1.0.0/16 -j ACCEPT", true),
            ("-A FORWARD -o eth+ -j ACCEPT", false),
            ("-A FORWARD ! -i eth0 -j ACCEPT", false),
            ("-A FORWARD ! -i cni0 -j ACCEPT", true),
            ("-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT", false),
            (
                "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
                true,
            ),
            (
                "-A FORWARD -m conntrack --ctstate NEW,RELATED -j ACCEPT",
                false,
            ),
            ("-A FORWARD -m state ! --state INVALID -j ACCEPT", false),
            ("-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT", false),
            (
                "-A FORWARD -m comment --comment \"-j ACCEPT\" -j LOG --log-prefix \"-j ACCEPT \"",
                true,
            ),
            (
                "-N ufw\n-A FORWARD -j ufw\n-A ufw -m conntrack --ctstate ESTABLISHED -j ACCEPT",
                true,
            ),
            (
                "-N KUBE-FORWARD\n-A FORWARD -j KUBE-FORWARD\n-A KUBE-FORWARD -s 10.1.0.0/16 -j ACCEPT",
                false,
            ),
            (
                "-A FORWARD -o docker0 -j ACCEPT\n-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
                true,
            ),
            ("-A FORWARD -s 10.1.0.0/255.0.255.0 -j ACCEPT", false),
            ("-A FORWARD -j NFQUEUE --queue-num 1", false),
        ] {
            assert_eq!(
                out(&format!("{drop}{rules}\n")).is_some(),
                dropped,
                "{rules}"
            );
        }
    }

    #[test]
    fn a_rule_that_drops_is_named_and_removed() {
        for target in ["DROP", "REJECT --reject-with icmp-port-unreachable"] {
            let rule =
                format!("FORWARD -s 10.1.0.0/24 -m comment --comment \"no pods\" -j {target}");
            let text = format!("-P FORWARD ACCEPT\n-A FORWARD -i eth0 -j DROP\n-A {rule}\n");
            let (by, mend) = out(&text).unwrap();
            assert_eq!(by, format!("iptables, table filter: -A {rule}"));
            let command = format!("iptables -t filter -D {}", rule.replace('"', "'"));
            assert_eq!(mend, [command]);
        }
        assert_eq!(
            out("-P FORWARD ACCEPT\n-A FORWARD -i cni0 -p udp -j DROP\n"),
            None
        );
    }

    #[test]
    fn a_table_without_the_chain_decides_nothing() {
        assert_eq!(
            gate(
                Family::V4,
                "iptables",
                ("raw", ENTRANCE),
                "-P PREROUTING ACCEPT\n"
            ),
            None
        );
    }
}
