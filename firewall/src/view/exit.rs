//! Whether what leaves the node gets another source, and which rule says so.

use super::View;
use super::packet::{Condition, Gate, Outcome, Packet, Step, Test};

/// What becomes of the source of a packet that leaves the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// It becomes an address of the node's, by this rule.
    Masqueraded(String),
    /// It stays: by this rule, or since none is about it.
    Kept(Option<String>),
    /// Nobody can tell from here; this is where it is decided.
    Unsure(String),
}

impl View {
    /// What becomes of the source of a connection's first packet, if nobody has marked it.
    pub fn exit(&self, packet: &Packet) -> Exit {
        let mut all = Exit::Kept(None);
        for gate in self.exits.iter().filter(|gate| gate.is_asked(packet)) {
            let by = |step: &Step| format!("{}: {}", gate.name, step.text.trim_end());
            match (gate.walk(&gate.entrance, packet, 0), &all) {
                // One is enough: what it does no other chain undoes.
                (Outcome::Translated(step), _) => return Exit::Masqueraded(by(step)),
                (Outcome::Unsure, _) => all = Exit::Unsure(gate.name.clone()),
                (Outcome::Accepted(step), Exit::Kept(None)) => all = Exit::Kept(Some(by(step))),
                _ => {}
            }
        }
        all
    }
}

impl Gate {
    /// The same for packets that nobody has marked.
    pub(super) fn of_unmarked(mut self) -> Gate {
        let steps = self.chains.values_mut().flatten();
        steps
            .flat_map(|step| &mut step.conditions)
            .for_each(|condition| {
                if let Condition::Unmarked(holds) = *condition {
                    let (test, not) = (Test::Any(Vec::new()), holds);
                    *condition = Condition::Is { test, not };
                }
            });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Family;

    const RULES: &str = "-P POSTROUTING ACCEPT
-N CNI-HOSTPORT-MASQ
-N CNI-a
-N KUBE-POSTROUTING
-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING
-A POSTROUTING -s 10.1.1.2/32 -m comment --comment \"name\" -j CNI-a
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A CNI-a -d 10.1.1.0/24 -m comment --comment \"name\" -j ACCEPT
-A CNI-a ! -d 224.0.0.0/4 -m comment --comment \"name\" -j MASQUERADE
";

    fn exit(rules: &str, source: &str, destination: &str) -> Exit {
        let view = View::default().with_table(Family::V4, "iptables", "nat", rules);
        view.exit(&Packet {
            input: "cni0".to_owned(),
            output: "eth0".to_owned(),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        })
    }

    #[test]
    fn the_rule_that_decides_is_named() {
        let masqueraded = exit(RULES, "10.1.1.2", "192.0.2.1");
        let rule = "iptables, table nat: -A CNI-a ! -d 224.0.0.0/4 -m comment --comment \"name\" -j MASQUERADE";
        assert_eq!(masqueraded, Exit::Masqueraded(rule.to_owned()));
        let kept = exit(RULES, "10.1.1.2", "10.1.1.3");
        let rule =
            "iptables, table nat: -A CNI-a -d 10.1.1.0/24 -m comment --comment \"name\" -j ACCEPT";
        assert_eq!(kept, Exit::Kept(Some(rule.to_owned())));
        assert_eq!(exit(RULES, "10.1.1.9", "192.0.2.1"), Exit::Kept(None));
        assert_eq!(exit(RULES, "10.1.1.2", "224.0.0.1"), Exit::Kept(None));
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        let rules = "-P POSTROUTING ACCEPT\n-A POSTROUTING -p tcp -j MASQUERADE\n";
        let unsure = Exit::Unsure("iptables, table nat".to_owned());
        assert_eq!(exit(rules, "10.1.1.2", "192.0.2.1"), unsure);
        // Whatever the first rule does, it is masqueraded.
        let also = format!("{rules}-A POSTROUTING -s 10.1.1.0/24 -j MASQUERADE\n");
        assert_eq!(exit(&also, "10.1.1.2", "192.0.2.1"), unsure);
    }
}
