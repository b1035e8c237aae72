//! A rule as its line in `iptables-save`, and the table as a list of such lines.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 or IPv6: each has its own tables and its own programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `iptables`.
    V4,
    /// `ip6tables`.
    V6,
}

impl Family {
    /// Both, in the order in which rules are made.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// Whether something can be used with one family at least: asked where nobody knows yet of which
    /// family a pod's addresses will be. `usable` is given some address of each.
    ///
    /// # Errors
    /// That of IPv4, where it cannot be used with either.
    pub fn any<E>(usable: impl Fn(IpNet) -> Result<(), E>) -> Result<(), E> {
        let v6 = |v4| usable(Ipv6Net::default().into()).map_err(|_| v4);
        usable(Ipv4Net::default().into()).or_else(v6)
    }

    /// The family of an address.
    pub fn of(address: &IpNet) -> Family {
        match address {
            IpNet::V4(_) => Family::V4,
            IpNet::V6(_) => Family::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// All multicast addresses of a family.
pub fn multicast(family: Family) -> IpNet {
    const V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4);
    const V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
    match family {
        Family::V4 => V4.into(),
        Family::V6 => V6.into(),
    }
}

/// One rule of the table `nat`: its line exactly as `iptables-save` prints it, `-A CHAIN …`.
///
/// `iptables-restore` reads the same line, so it is also what is sent, and with another first word
/// it is the question whether the rule is there, or its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule(String);

impl Rule {
    /// The rule `spec` of `chain`.
    pub fn new(chain: &str, spec: impl fmt::Display) -> Rule {
        Rule(format!("-A {chain} {spec}"))
    }

    /// A rule of which only its place is known: no other is like it.
    pub fn unknown(chain: &str) -> Rule {
        Rule::new(chain, "")
    }

    /// The line that adds it at the end, which is also its line in the listing.
    pub fn append(&self) -> &str {
        &self.0
    }

    /// The line that adds it in front of all others.
    pub fn prepend(&self) -> String {
        format!("-I {} 1 {}", self.chain(), self.spec())
    }

    /// The line that is refused where the rule is not there.
    pub fn test(&self) -> String {
        format!("-C {} {}", self.chain(), self.spec())
    }

    /// The line that removes it.
    pub fn delete(&self) -> String {
        format!("-D {} {}", self.chain(), self.spec())
    }

    /// The chain it is in.
    pub fn chain(&self) -> &str {
        self.parts().0
    }

    /// What follows the chain.
    fn spec(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let rest = self.0.strip_prefix("-A ").unwrap_or(&self.0);
        rest.split_once(' ').unwrap_or((rest, ""))
    }

    /// The word after `option`, as `10.0.0.2/32` after `-s`; a comment's words do not count.
    pub fn value_of(&self, option: &str) -> Option<String> {
        let mut words = self.words().into_iter();
        while let Some(word) = words.next() {
            if word == option {
                return words.next();
            }
            if word == "--comment" {
                words.next();
            }
        }
        None
    }

    /// What follows the chain, word by word.
    pub fn words(&self) -> Vec<String> {
        words(self.spec())
    }

    /// The chain or target that a packet goes to next.
    pub fn target(&self) -> Option<String> {
        self.value_of("-j").or_else(|| self.value_of("-g"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The words of a line, quotes resolved as `iptables-restore` does.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let (mut quoted, mut escaped) = (false, false);
    for c in line.chars() {
        if escaped {
            escaped = false;
            word.get_or_insert_default().push(c);
        } else if quoted && c == '\\' {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
            word.get_or_insert_default();
        } else if c == ' ' && !quoted {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);
    words
}

/// A word as `iptables-save` prints it (`xtables_save_string` of libxtables): bare, or quoted with
/// `"`, `\` and `'` escaped.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from('"');
    for c in word.chars() {
        if matches!(c, '"' | '\\' | '\'') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// The words that match an address, with a space behind them; none for a whole family, as
/// `iptables-save` prints it.
pub fn address_match(option: &str, net: &IpNet) -> String {
    if net.prefix_len() == 0 {
        return String::new();
    }
    format!("{option} {net} ")
}

/// The table `nat` of one family as `iptables -S` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    chains: Vec<String>,
    rules: Vec<Rule>,
}

impl Listing {
    /// Reads `-P CHAIN POLICY`, `-N CHAIN` and `-A CHAIN …` lines; others are skipped.
    pub fn parse(text: &str) -> Listing {
        let mut listing = Listing::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("-A", _)) => listing.rules.push(Rule(line.to_owned())),
                Some(("-P" | "-N", rest)) => {
                    let (chain, _policy) = rest.split_once(' ').unwrap_or((rest, ""));
                    listing.chains.push(chain.to_owned());
                }
                _ => {}
            }
        }
        listing
    }

    /// Adds a chain with its rules, in their order.
    pub fn add(&mut self, chain: &str, rules: impl IntoIterator<Item = Rule>) {
        self.chains.push(chain.to_owned());
        self.rules.extend(rules);
    }

    /// All rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Whether the chain is there.
    pub fn has_chain(&self, chain: &str) -> bool {
        self.chains.iter().any(|name| name == chain)
    }

    /// Whether the rule is there.
    pub fn has(&self, rule: &Rule) -> bool {
        self.rules.contains(rule)
    }

    /// The chain's rules in their order.
    pub fn rules_in<'a>(&'a self, chain: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| rule.chain() == chain)
    }

    /// The rules of other chains that lead to the chain.
    pub fn rules_to<'a>(&'a self, chain: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| {
            // Most lines of a busy node are of others: look closer only where the name occurs.
            rule.0.contains(chain)
                && rule.chain() != chain
                && rule.target().as_deref() == Some(chain)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_family_is_enough() {
        let with = |v4: bool, v6: bool| {
            Family::any(|net| match Family::of(&net) {
                Family::V4 => v4.then_some(()).ok_or("no IPv4"),
                Family::V6 => v6.then_some(()).ok_or("no IPv6"),
            })
        };
        assert_eq!(with(true, true), Ok(()));
        assert_eq!(with(true, false), Ok(()));
        assert_eq!(with(false, true), Ok(()));
        assert_eq!(with(false, false), Err("no IPv4"));
    }

    #[test]
    fn one_line_is_sent_asked_and_deleted() {
        let rule = Rule::new("POSTROUTING", "-s 10.1.2.2/32 -j CNI-a");
        assert_eq!(rule.append(), "-A POSTROUTING -s 10.1.2.2/32 -j CNI-a");
        assert_eq!(rule.prepend(), "-I POSTROUTING 1 -s 10.1.2.2/32 -j CNI-a");
        assert_eq!(rule.test(), "-C POSTROUTING -s 10.1.2.2/32 -j CNI-a");
        assert_eq!(rule.delete(), "-D POSTROUTING -s 10.1.2.2/32 -j CNI-a");
        assert_eq!(rule.value_of("-s").as_deref(), Some("10.1.2.2/32"));
    }

    #[test]
    fn a_jump_within_a_comment_is_none() {
        let rule = Rule::new("X", r#"-m comment --comment "a \" -j CNI-b" -j CNI-c"#);
        assert_eq!(rule.target().as_deref(), Some("CNI-c"));
        assert_eq!(rule.value_of("--comment").as_deref(), Some("a \" -j CNI-b"));
        // `iptables-save` prints a comment of one plain word without quotes.
        let rule = Rule::new("X", "-m comment --comment -j -j CNI-c");
        assert_eq!(rule.target().as_deref(), Some("CNI-c"));
        assert_eq!(rule.value_of("--comment").as_deref(), Some("-j"));
    }

    #[test]
    fn words_are_quoted_as_iptables_save_does() {
        assert_eq!(quote("cni_lite-1"), "cni_lite-1");
        assert_eq!(quote("a.b"), "\"a.b\"");
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote(r#"name: "a\'""#), r#""name: \"a\\\'\"""#);
        assert_eq!(words(&quote(r#"name: "a\'""#)), [r#"name: "a\'""#]);
    }

    #[test]
    fn a_listing_knows_chains_and_who_leads_to_them() {
        let listing = Listing::parse(
            "-P POSTROUTING ACCEPT\n-N CNI-a\n-N CNI-ab\n\
             -A POSTROUTING -s 10.0.0.1/32 -j CNI-a\n-A POSTROUTING -j CNI-ab\n\
             -A CNI-a -j ACCEPT\n# Warning\n",
        );
        assert!(listing.has_chain("CNI-a") && listing.has_chain("POSTROUTING"));
        assert!(!listing.has_chain("CNI-b"));
        assert!(listing.has(&Rule::new("CNI-a", "-j ACCEPT")));
        assert_eq!(listing.rules_in("POSTROUTING").count(), 2);
        let to_a: Vec<_> = listing.rules_to("CNI-a").map(Rule::append).collect();
        assert_eq!(to_a, ["-A POSTROUTING -s 10.0.0.1/32 -j CNI-a"]);
    }

    #[test]
    fn an_empty_listing_is_tolerated() {
        assert_eq!(Listing::parse("\n"), Listing::default());
    }
}
