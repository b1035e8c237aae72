//! The verbs of a set of rules, for both families.

use ipnet::IpNet;

use crate::deadline::Deadline;
use crate::garbage::{self, Garbage};
use crate::iptables::{self, Restoring, Tool, Variant};
use crate::lock::Lock;
use crate::names;
use crate::nft::nat;
use crate::probe::{self, Names, Presence};
use crate::rule::{Family, Listing, Rule};
use crate::ruleset::{self, RuleSet};
use crate::{Error, Owner, Result, hostport, masquerade};

/// A chain that an attachment may have left.
#[derive(Debug, Clone)]
pub struct Leftover<'a> {
    chain: String,
    /// Where the name does not say whose the chain is: the attachment's addresses, of which alone
    /// its rules may speak.
    only: Option<&'a [IpNet]>,
}

impl<'a> Leftover<'a> {
    /// A chain whose name is the attachment's alone.
    pub fn certain(chain: String) -> Self {
        Leftover { chain, only: None }
    }

    /// The attachment's chain of that prefix, and, where the interface is not `eth0`, the one that a
    /// reference plugin would have made for it and for all others of the container; without any
    /// address it could not be told whose that is.
    pub fn of(prefix: &str, owner: Owner, addresses: &'a [IpNet]) -> Vec<Self> {
        let own = Leftover::certain(names::chain(prefix, owner));
        let shared = names::shared_chain(prefix, owner);
        if own.chain == shared || addresses.is_empty() {
            return vec![own];
        }
        let shared = Leftover {
            chain: shared,
            only: Some(addresses),
        };
        vec![own, shared]
    }

    fn is_ours(&self, listing: &Listing) -> bool {
        let Some(addresses) = self.only else {
            return true;
        };
        let ours: Vec<_> = addresses.iter().map(|net| net.addr().to_string()).collect();
        let found = ruleset::addresses_of(listing, &self.chain);
        !found.is_empty() && found.iter().all(|address| ours.contains(address))
    }
}

/// The node's own choice of programs for each family, found before anything is changed.
#[derive(Debug)]
pub struct Tools(Vec<(Family, Tool)>);

impl Tools {
    /// Those that are there.
    pub fn find() -> Tools {
        let deadline = Deadline::start();
        let found = |family| Some((family, Tool::default_of(family, deadline).ok()?));
        Tools(Family::ALL.into_iter().filter_map(found).collect())
    }

    /// Whether there is one for the family.
    ///
    /// # Errors
    /// [`Error::NoTool`].
    pub fn expect(&self, family: Family) -> Result<()> {
        let is_there = self.0.iter().any(|(of, _)| *of == family);
        is_there
            .then_some(())
            .ok_or(Error::NoTool(iptables::plain(family)))
    }

    fn take(&mut self, family: Family) -> Result<Tool> {
        let at = self.0.iter().position(|(of, _)| *of == family);
        let found = at.map(|at| self.0.swap_remove(at).1);
        found.ok_or(Error::NoTool(iptables::plain(family)))
    }

    /// Starts the program that IPv4 rules will be made by, for somebody who has other things to do
    /// before they are known. Most pods have such an address.
    pub fn warm_up(&self) {
        if let Some((Family::V4, tool)) = self.0.first() {
            tool.warm_up();
        }
    }
}

/// Rules that are being made. Where nobody waits for the end, they may be there or not.
#[derive(Debug)]
pub struct Adding {
    chain: String,
    /// IPv4 first.
    families: Vec<AddingFamily>,
    deadline: Deadline,
}

#[derive(Debug)]
struct AddingFamily {
    family: Family,
    tool: Tool,
    set: RuleSet,
    /// The program that is at work on the first batch.
    begun: Option<Restoring>,
}

/// Begins to make what `rules` says for each family in place of whatever `chain` held before.
///
/// # Errors
/// [`Error::NoTool`] before anything is changed.
pub fn begin(
    mut tools: Tools,
    chain: &str,
    rules: impl Fn(Family) -> Option<RuleSet>,
) -> Result<Adding> {
    let deadline = Deadline::start();
    let mut families = Vec::new();
    for family in Family::ALL {
        if let Some(set) = rules(family) {
            let mut tool = tools.take(family)?;
            tool.deadline = deadline;
            families.push(AddingFamily {
                family,
                tool,
                set,
                begun: None,
            });
        }
    }
    for adding in families.iter_mut().filter(|adding| adding.tool.tests) {
        // One that cannot be started is tried again at the end, and is then an error.
        adding.begun = adding.tool.begin(&adding.set.first_batch()).ok();
    }
    Ok(Adding {
        chain: chain.to_owned(),
        families,
        deadline,
    })
}

impl Adding {
    /// There is nothing to wait for.
    pub(crate) fn done() -> Adding {
        Adding {
            chain: String::new(),
            families: Vec::new(),
            deadline: Deadline::start(),
        }
    }

    /// Waits until the rules are there. Where one fails, what was made is taken back.
    ///
    /// # Errors
    /// The tool's.
    pub fn finish(self) -> Result<()> {
        let own = [Leftover::certain(self.chain)];
        let wanted: Vec<_> = self.families.iter().map(|adding| adding.family).collect();
        let done = replace(&own, self.families, self.deadline);
        if done.is_err() {
            // What is made is taken back also where the time was up.
            let deadline = Deadline::start();
            for family in wanted {
                // The first error is the one to report.
                let _ = delete_family(family, &own, true, deadline);
            }
        }
        done
    }
}

/// Makes the rule sets, and removes what an earlier ADD has left of a family that there is no more
/// address of.
fn replace(own: &[Leftover], families: Vec<AddingFamily>, deadline: Deadline) -> Result<()> {
    let mut new = true;
    let mut made = Vec::new();
    for adding in families {
        made.push(adding.family);
        new &= add_family(adding, deadline)?;
    }
    let names: Vec<_> = own.iter().map(|own| own.chain.as_str()).collect();
    for family in Family::ALL.into_iter().filter(|f| !made.contains(f)) {
        if !new || probe::chains(family, Variant::Nft, &names) == Presence::Present {
            delete_family(family, own, false, deadline)?;
        }
    }
    Ok(())
}

/// Returns whether the attachment was surely new.
fn add_family(adding: AddingFamily, deadline: Deadline) -> Result<bool> {
    let AddingFamily { tool, set, .. } = adding;
    if tool.tests {
        let begun = adding
            .begun
            .map_or_else(|| tool.begin(&set.first_batch()), Ok);
        match begun.and_then(Restoring::end) {
            Ok(()) => return Ok(true),
            Err(Error::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let _lock = Lock::take(deadline)?;
    tool.change(|listing| (set.repair_batch(listing), false))
}

/// Removes the chains and all that leads to them, in both families and variants. Where the kernel
/// says that there are none, no process is started. Returns the rules that were removed, each with
/// its family.
///
/// # Errors
/// What is still there, or may be and was `expected`; the other families and variants are done all
/// the same.
pub fn delete(leftovers: &[Leftover], expected: bool) -> Result<Vec<(Family, Rule)>> {
    let deadline = Deadline::start();
    let mut removed = Vec::new();
    let mut errors = Vec::new();
    for family in Family::ALL {
        match delete_family(family, leftovers, expected, deadline) {
            Ok(rules) => removed.extend(rules.into_iter().map(|rule| (family, rule))),
            Err(error) => errors.push(error),
        }
    }
    Error::all(errors).map(|()| removed)
}

/// Removes an attachment's chain wherever the kernel says that it is, for what is made in its place.
///
/// # Errors
/// The tool's, or the kernel's.
pub fn forget(chain: &str) -> Result<()> {
    let deadline = Deadline::start();
    let own = [Leftover::certain(chain.to_owned())];
    for family in Family::ALL {
        for variant in Variant::ALL {
            if probe::chains(family, variant, &[chain]) == Presence::Present {
                delete_variant(family, variant, &own, false, deadline)?;
            }
        }
    }
    Ok(())
}

fn delete_family(
    family: Family,
    leftovers: &[Leftover],
    expected: bool,
    deadline: Deadline,
) -> Result<Vec<Rule>> {
    let mut removed = Vec::new();
    let mut errors = Vec::new();
    for variant in Variant::ALL {
        match delete_variant(family, variant, leftovers, expected, deadline) {
            Ok(rules) => removed.extend(rules),
            Err(error) => errors.push(error),
        }
    }
    Error::all(errors).map(|()| removed)
}

fn delete_variant(
    family: Family,
    variant: Variant,
    leftovers: &[Leftover],
    expected: bool,
    deadline: Deadline,
) -> Result<Vec<Rule>> {
    let names: Vec<_> = leftovers.iter().map(|left| left.chain.as_str()).collect();
    let presence = probe::chains(family, variant, &names);
    match presence {
        Presence::Absent => return Ok(Vec::new()),
        Presence::Unknown if !expected => return Ok(Vec::new()),
        _ => {}
    }
    let (certain, unsure) = by_certainty(leftovers);
    if variant == Variant::Nft
        && presence == Presence::Present
        && probe::chains(family, variant, &unsure) == Presence::Absent
        && let Ok(Some(removed)) = nat::delete(family, &certain, entered_from)
    {
        return Ok(removed);
    }
    let still_there = |names: &[&str], why: String| {
        let names = names.join(", ");
        Error::StillThere(format!(
            "chain {names} and the rules that lead to it may still be in {family} table nat: {why}"
        ))
    };
    let tool = match Tool::of_variant(family, variant, deadline) {
        Ok(tool) => tool,
        Err(error) if presence == Presence::Present || expected => {
            return Err(still_there(&names, error.to_string()));
        }
        Err(_) => return Ok(Vec::new()),
    };
    let changed = tool.change(|listing| {
        let ours = leftovers.iter().filter(|left| left.is_ours(listing));
        ruleset::removal(listing, ours.map(|left| &left.chain))
    });
    let removed = match changed {
        // It cannot list the table, or is broken. The kernel finds what is ours by its name, though
        // not what only a listing can tell to be ours.
        Err(refused @ Error::Refused { .. }) if variant == Variant::Nft => {
            match nat::remove(family, &certain) {
                Ok(()) if probe::chains(family, variant, &unsure) == Presence::Absent => Vec::new(),
                _ => return Err(refused),
            }
        }
        changed => changed?,
    };
    // A program that is not of the variant that its name or place suggests has seen nothing.
    match probe::chains(family, variant, &certain) {
        Presence::Present => Err(still_there(
            &certain,
            format!("{} does not see it", tool.name()),
        )),
        _ => Ok(removed),
    }
}

/// The chain whose rules lead to an attachment's of that name.
fn entered_from(chain: &str) -> &'static str {
    let [ports, of_first_releases] = hostport::KINDS;
    let mut kinds = [ports, of_first_releases].into_iter();
    let kind = kinds.find(|kind| names::is_chain(kind.prefix, chain));
    kind.unwrap_or(masquerade::KIND).entered_from
}

/// The names of the chains that are surely the attachment's, and of those that may be.
fn by_certainty<'a>(leftovers: &'a [Leftover]) -> (Vec<&'a str>, Vec<&'a str>) {
    let names = |certain: bool| {
        let of_kind = leftovers
            .iter()
            .filter(move |left| left.only.is_none() == certain);
        of_kind.map(|left| left.chain.as_str()).collect()
    };
    (names(true), names(false))
}

/// Removes the garbage and all that leads to it, from the tables of both families and variants, each
/// by one listing. Where the kernel says that there can be none, no process is started. Returns the
/// rules that were removed, each with its family, also where something else could not be.
pub fn gc(garbage: &[Garbage]) -> (Vec<(Family, Rule)>, Result<()>) {
    let deadline = Deadline::start();
    let mut removed = Vec::new();
    let mut errors = Vec::new();
    for (family, variant) in Family::ALL
        .into_iter()
        .flat_map(|family| Variant::ALL.map(|variant| (family, variant)))
    {
        match gc_variant(family, variant, garbage, deadline) {
            Ok(rules) => removed.extend(rules.into_iter().map(|rule| (family, rule))),
            Err(error) => errors.push(error),
        }
    }
    (removed, Error::all(errors))
}

fn gc_variant(
    family: Family,
    variant: Variant,
    garbage: &[Garbage],
    deadline: Deadline,
) -> Result<Vec<Rule>> {
    let may_be = |name: &String| garbage.iter().any(|kind| kind.may_be(name));
    let candidates = match probe::names(family, variant) {
        Names::Known(names) => Some(names.into_iter().filter(may_be).collect::<Vec<_>>()),
        Names::Hidden => None,
        Names::Unknown => return Ok(Vec::new()),
    };
    if candidates.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let unseen = |why: String| {
        Error::StillThere(format!(
            "rules of attachments that are no more may still be in {family} table nat: {why}"
        ))
    };
    let tool =
        Tool::of_variant(family, variant, deadline).map_err(|error| unseen(error.to_string()))?;
    let change = || {
        tool.change(|listing| {
            let is_seen = |names: &Vec<String>| names.iter().any(|name| listing.has_chain(name));
            let chains = garbage.iter().flat_map(|kind| kind.chains(listing));
            let (batch, rules) = ruleset::removal(listing, chains);
            let names = candidates.as_deref().unwrap_or_default();
            let seen = candidates.as_ref().is_none_or(is_seen);
            (batch, (rules, seen, garbage::is_told(names, listing)))
        })
    };
    let (mut removed, seen, told) = change()?;
    if !told {
        removed.extend(change()?.0);
    }
    // A program that is not of the variant that its name or place suggests sees another table.
    match seen {
        true => Ok(removed),
        false => Err(unseen(format!("{} does not see them", tool.name()))),
    }
}

/// Whether all that `rules` says of the attachment's chain is there, or else of the chain that a
/// reference plugin would have made for it.
///
/// # Errors
/// [`Error::Missing`] with the first thing that is not, or the tool's.
pub fn check(
    prefix: &str,
    owner: Owner,
    rules: impl Fn(&str, Family) -> Option<RuleSet>,
) -> Result<()> {
    let own = names::chain(prefix, owner);
    let shared = names::shared_chain(prefix, owner);
    let deadline = Deadline::start();
    match check_rules(deadline, |family| rules(&own, family)) {
        Err(missing @ Error::Missing(_)) if own != shared => {
            check_rules(deadline, |family| rules(&shared, family)).map_err(|_| missing)
        }
        checked => checked,
    }
}

fn check_rules(deadline: Deadline, rules: impl Fn(Family) -> Option<RuleSet>) -> Result<()> {
    for family in Family::ALL {
        let Some(set) = rules(family) else { continue };
        let tool = Tool::default_of(family, deadline)?;
        let missing = |text| Err(Error::Missing(format!("{family}: {text}")));
        if !is_seen(&tool, family, &set)
            && let Some(text) = set.missing(&tool.list()?)
        {
            return missing(text);
        }
        if set.foreign_words {
            for rule in &set.entries {
                if !tool.has_rule(rule)? {
                    return missing(ruleset::not_found(rule));
                }
            }
        }
    }
    Ok(())
}

/// Whether the kernel itself says that all is there, in the table that the program speaks to. What it
/// says otherwise may be for want of words: then the program is to say.
fn is_seen(tool: &Tool, family: Family, set: &RuleSet) -> bool {
    tool.is(Variant::Nft)
        && nat::list(family, set.chains()).is_ok_and(|listing| set.missing(&listing).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_several_interfaces_is_looked_at_only_where_addresses_tell() {
        let addresses = ["10.1.2.2/24".parse().unwrap()];
        for (ifname, addresses, chains) in [
            ("eth0", &addresses[..], 1),
            ("net1", &addresses[..], 2),
            ("net1", &[], 1),
        ] {
            let owner = Owner {
                network: "mynet",
                container_id: "cont1",
                ifname,
            };
            let left = Leftover::of("CNI-", owner, addresses);
            assert_eq!(left.len(), chains, "{ifname} {addresses:?}");
            assert!(left.iter().skip(1).all(|one| one.only == Some(addresses)));
        }
    }
}
