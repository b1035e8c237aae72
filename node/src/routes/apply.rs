//! Making the change.

use net::route::Entry;
use net::{Errno, Error, Netlink};

use super::{Change, PROTOCOL, words};
use crate::Node;

/// A change that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error("{cause}{}", outcome(.left))]
pub struct Failed {
    /// What was refused; it names the route.
    pub cause: Error,
    /// What was changed before and could not be undone, a line each; empty where the routes are as
    /// they were.
    pub left: Vec<String>,
}

fn outcome(left: &[String]) -> String {
    match left {
        [] => "; the routes are as they were".to_owned(),
        left => format!("; this was changed before and stays: {}", left.join(", ")),
    }
}

/// One step that was made.
enum Step<'a> {
    Deleted(&'a Entry),
    Added(Entry),
}

/// Makes the change, all of it or nothing. What another has removed meanwhile counts as removed.
///
/// # Errors
/// The first refusal, once all steps before it are undone.
pub fn apply(netlink: &Netlink, node: &Node, change: &Change) -> Result<(), Failed> {
    let mut made = Vec::new();
    let done = make(netlink, change, &mut made);
    done.map_err(|cause| {
        let undone = made
            .iter()
            .rev()
            .filter_map(|step| undo(netlink, node, step));
        Failed {
            cause,
            left: undone.collect(),
        }
    })
}

fn make<'a>(netlink: &Netlink, change: &'a Change, made: &mut Vec<Step<'a>>) -> Result<(), Error> {
    for entry in &change.delete {
        match netlink.delete_route(entry) {
            // Its other ways may have gone with the first; or it is a way that another has added.
            Err(error) if error.is(Errno::ESRCH) => {}
            deleted => {
                deleted?;
                made.push(Step::Deleted(entry));
            }
        }
    }
    for addition in &change.add {
        netlink.insert_route(&addition.route, PROTOCOL)?;
        made.push(Step::Added(addition.entry()));
    }
    Ok(())
}

/// Takes a step back; in words what stays of it.
fn undo(netlink: &Netlink, node: &Node, step: &Step) -> Option<String> {
    let (undone, what, entry) = match step {
        Step::Deleted(entry) => {
            let route = netlink.insert_route(&entry.route, entry.protocol);
            (route, "removed", *entry)
        }
        Step::Added(entry) => (netlink.delete_route(entry), "added", entry),
    };
    let route = || words(node, entry);
    undone
        .err()
        .map(|error| format!("{what} {} ({error})", route()))
}
