//! What is to be done on this node, and doing it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use net::Netlink;
use net::route::Entry;
use node::routes::{self, Addition, Cause, Change, Line, Mark};
use node::{Node, Places, Site, Unread};
use plan::Cluster;
use plan::conflist::Types;
use plan::kubernetes::Told;

use crate::conflist::{Conflist, Step, Wanted};
use crate::peers::Here;
use crate::{Finding, Peers, Reason};

/// No conflist is larger, in bytes.
const MOST_OF_CONFLIST: u64 = 4 << 20;

/// What does not change while the agent runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this node.
    pub own: String,
    /// What the pod network can do, the ranges of all pods where they are known, the name of the
    /// network and of the bridge.
    pub cluster: Cluster,
    /// This node's interface through which others are reached, where it is told.
    pub device: Option<String>,
    /// Which names the plugins have.
    pub types: Types,
    /// The folder of reservations, where that is another than the plugin's own.
    pub data: Option<PathBuf>,
    /// The conflist's file.
    pub file: PathBuf,
    /// Where configurations and plugins are.
    pub places: Places,
    /// The API's own addresses, as far as they are known: no route to pods takes them in.
    pub api: Vec<IpAddr>,
}

/// What is on the node, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Links, addresses, routes, networks and reservations.
    pub node: Node,
    /// The text of the conflist's file.
    pub conflist: Option<String>,
    /// Why that cannot be read, where it is there.
    pub unread: Option<String>,
    /// The names of the files in the folders of plugins.
    pub programs: BTreeSet<String>,
}

/// What is to be done on this node.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// What is on it.
    pub node: Node,
    /// What the routes should be.
    pub site: Site,
    /// The routes as they are.
    pub lines: Vec<Line>,
    /// What makes them so.
    pub change: Change,
    /// The conflist.
    pub conflist: Conflist,
    /// What is wrong, in the order of the nodes' names.
    pub findings: Vec<Finding>,
}

impl Seen {
    /// Looks at the calling thread's namespace and the folders.
    ///
    /// # Errors
    /// Links, addresses or routes cannot be read.
    pub fn look(settings: &Settings) -> Result<Seen, Unread> {
        let node = Node::read_networking(&settings.places)?;
        let (conflist, unread) = match read_file(&settings.file) {
            Ok(text) => (Some(text), None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let folders = settings.places.runtime.path.iter();
        let files = folders.filter_map(|folder| fs::read_dir(folder).ok());
        let names = files
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(Seen {
            node,
            conflist,
            unread,
            programs: names.collect(),
        })
    }
}

/// What is no file would never end, or never begin.
fn read_file(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > MOST_OF_CONFLIST {
        let why = format!("no file of at most {MOST_OF_CONFLIST} bytes");
        return Err(io::Error::other(why));
    }
    fs::read_to_string(path)
}

impl Outlook {
    /// What follows from what is told of all nodes and what is on this one.
    pub fn new(settings: &Settings, told: &[Told], seen: Seen) -> Outlook {
        let own = settings.own.as_str();
        let pods: Vec<_> = settings
            .cluster
            .pods
            .iter()
            .map(|pods| pods.range)
            .collect();
        let here = Here {
            own,
            pods: &pods,
            node: &seen.node,
            bridge: &settings.cluster.bridge,
            api: &settings.api,
        };
        let peers = Peers::new(told, &here);
        let mut findings = peers.findings;
        // Else a foreign route is told by what is planned alone.
        let all = peers.given.iter().copied();
        let all = all.chain(peers.planned.iter().map(|planned| planned.range));
        let pods = if pods.is_empty() { all.collect() } else { pods };
        let site = Site {
            name: own.to_owned(),
            ranges: peers.given,
            bridge: settings.cluster.bridge.clone(),
            device: settings.device.clone(),
            pods,
            peers: peers.others,
            planned: peers.planned,
        };
        let mut lines = routes::compare(&seen.node, &site);
        let mut change = Change::to_plan(&seen.node, &site, &lines);
        // Whoever does not know this node may be no API of its cluster, or has lost it.
        if findings.iter().any(|one| one.reason == Reason::NodeUnknown) {
            lines.retain(|line| matches!(line.mark, Mark::Planned | Mark::Foreign));
            change = Change::default();
        }
        findings.extend(change.blocked.iter().map(|blocked| {
            let reason = match blocked.cause {
                Cause::OffLink => Reason::NextHopOffLink,
                Cause::Foreign | Cause::OwnRange => Reason::ForeignRoute,
            };
            let node = blocked.to.as_deref().unwrap_or(own);
            let (route, why, mend) = (&blocked.route, &blocked.why, &blocked.mend);
            Finding::new(node, reason, format!("{route}: {why}; see: {mend}"))
        }));
        let wanted = Wanted {
            own,
            ranges: &peers.own,
            cluster: &settings.cluster,
            types: settings.types,
            mtu: mtu(&seen.node, &lines, &change, &peers.addresses),
            data: settings.data.as_deref(),
            file: &settings.file,
        };
        let (conflist, waits) = wanted.against(&seen.node, seen.conflist.as_deref());
        findings.extend(waits);
        findings.extend(of_folders(settings, &seen));
        findings.sort();
        Outlook {
            node: seen.node,
            site,
            lines,
            change,
            conflist,
            findings,
        }
    }

    /// How many routes there should be.
    pub fn wanted(&self) -> usize {
        self.site.planned.len()
    }

    /// How many of them are there.
    pub fn present(&self) -> usize {
        let there = self.lines.iter().filter(|line| line.mark == Mark::Planned);
        there.count()
    }

    /// Whether nothing is to be done.
    pub fn is_done(&self) -> bool {
        self.change.is_empty() && self.conflist.step != Step::Write
    }

    /// What keeps pods from a network on this node; none where it has one. That of other nodes
    /// something is wrong is no reason.
    pub fn obstacles(&self) -> impl Iterator<Item = &Finding> {
        let own = self.site.name.as_str();
        let is_there = self.conflist.step == Step::Keep;
        self.findings.iter().filter(move |finding| {
            let hinders = match finding.reason {
                Reason::PluginMissing
                | Reason::ConflistFailed
                | Reason::ConflistHidden
                | Reason::KernelUnread => true,
                // With its conflist in place it goes on as it is.
                Reason::NodeUnknown
                | Reason::NoPodRange
                | Reason::BadPodRange
                | Reason::PodRangeOverlaps
                | Reason::PodRangeHoldsNodes
                | Reason::PodRangeCutsOff
                | Reason::PodRangeChanged => !is_there,
                _ => false,
            };
            hinders && finding.node == own
        })
    }

    /// Does what is to be done: routes that are no longer planned go, missing ones come, each by
    /// itself; the conflist is put in its place as a whole. What cannot be done is a finding more, and
    /// stops nothing else.
    pub fn make(&mut self, netlink: &Netlink) {
        let mut refused = Vec::new();
        let adds: BTreeSet<_> = self
            .change
            .add
            .iter()
            .map(|addition| addition.route.dst)
            .collect();
        let (replaced, gone): (Vec<&Entry>, Vec<&Entry>) = self
            .change
            .delete
            .iter()
            .partition(|entry| adds.contains(&entry.route.dst));
        for entry in gone {
            let own = self.site.name.as_str();
            refused.extend(self.apply(netlink, own, &[entry], None));
        }
        for addition in &self.change.add {
            // At once before it: nothing leads there only as long as that takes.
            let before = replaced
                .iter()
                .filter(|entry| entry.route.dst == addition.route.dst);
            let before: Vec<&Entry> = before.copied().collect();
            refused.extend(self.apply(netlink, &addition.planned.to, &before, Some(addition)));
        }
        if self.conflist.step == Step::Write {
            match self.put_conflist(netlink) {
                Ok(()) => self.conflist.step = Step::Keep,
                Err(reason) => {
                    let own = &self.site.name;
                    refused.push(Finding::new(own, Reason::ConflistFailed, reason));
                    self.conflist.step = Step::Wait;
                }
            }
        }
        self.findings.extend(refused);
        self.findings.sort();
    }

    fn apply(
        &self,
        netlink: &Netlink,
        node: &str,
        delete: &[&Entry],
        add: Option<&Addition>,
    ) -> Option<Finding> {
        let change = Change {
            delete: delete.iter().copied().cloned().collect(),
            add: add.into_iter().cloned().collect(),
            blocked: Vec::new(),
        };
        let failed = routes::apply(netlink, &self.node, &change).err()?;
        Some(Finding::new(node, Reason::RouteRefused, failed.to_string()))
    }

    /// The former gateways go first: the bridge plugin refuses another's address on its bridge.
    fn put_conflist(&self, netlink: &Netlink) -> Result<(), String> {
        for (index, net) in &self.conflist.former {
            let removed = netlink.delete_address(*index, *net);
            removed.map_err(|error| error.to_string())?;
        }
        let file = &self.conflist.file;
        let folder = file.parent().unwrap_or(Path::new("."));
        let text = self.conflist.text.clone().into_bytes();
        let item = install::configuration(file, text, folder).map_err(|error| error.to_string())?;
        install::put(&[item]).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// The smallest MTU of the links by which other nodes are reached, else of the link with this node's
/// own address, in bytes.
fn mtu(node: &Node, lines: &[Line], change: &Change, own: &[IpAddr]) -> Option<u32> {
    let found = lines.iter().filter(|line| line.mark == Mark::Planned);
    let found = found.filter_map(|line| Some(line.found.as_ref()?.route.index));
    let added = change.add.iter().map(|addition| addition.route.index);
    let mut links: BTreeSet<u32> = found.chain(added).collect();
    if links.is_empty() {
        let here = node
            .addresses
            .iter()
            .filter(|(_, address)| own.contains(&address.net.addr()));
        links = here.map(|(index, _)| *index).collect();
    }
    let links = links
        .into_iter()
        .filter_map(|index| node.link_by_index(index));
    links.map(|link| link.mtu).min()
}

/// What is wrong in the folders of configurations and plugins.
fn of_folders(settings: &Settings, seen: &Seen) -> Vec<Finding> {
    let own = settings.own.as_str();
    let mut findings = Vec::new();
    let file = settings.file.display();
    if let Some(reason) = &seen.unread {
        let message = format!("{file} cannot be read: {reason}");
        findings.push(Finding::new(own, Reason::ConflistFailed, message));
    }
    let first = seen.node.configurations.iter().find(|one| one.list.is_ok());
    if let Some(first) = first.filter(|first| first.file < settings.file) {
        let message = format!(
            "{} comes before {file} in its folder, and runtimes take the first: move it away",
            first.file.display()
        );
        findings.push(Finding::new(own, Reason::ConflistHidden, message));
    }
    for kind in plan::conflist::kinds(&settings.cluster.features, settings.types) {
        if !seen.programs.contains(&kind) {
            let message = format!(
                "plugin {kind} of {file} is in none of the folders of plugins: `podnet install` puts it there"
            );
            findings.push(Finding::new(own, Reason::PluginMissing, message));
        }
    }
    findings
}
