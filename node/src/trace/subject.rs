//! Whose path is asked for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use attached::pair::is_pair;
use cni::Attachment;

use crate::case::Case;
use crate::node::{Attached, Netns, Node};
use crate::whose::named_by;

/// Whose path is asked for.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A pod of this node.
    Pod(Box<Pod>),
    /// An address of another node, or of a pod there.
    Elsewhere {
        /// The address.
        address: IpAddr,
        /// The node's name.
        node: String,
    },
    /// A link of this node that is no pod's, by its index.
    Link(u32),
}

/// An interface of a pod.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// Whose it is, where that is known.
    pub attachment: Option<Attachment>,
    /// The path of its namespace, where that is known.
    pub netns: Option<PathBuf>,
    /// The interface in it.
    pub ifname: String,
    /// The node's end of its pair, by its index.
    pub veth: Option<u32>,
    /// Links, addresses and routes of the namespace, or why they cannot be had.
    pub inside: Option<Result<Node, String>>,
}

/// What a text means: an address; an attachment, `NETWORK/ID/INTERFACE`; the id of a container, a
/// link, a namespace by its path or name; or the beginning of the id of one container. Each interface
/// of a pod is one.
///
/// # Errors
/// It means nothing here, or several things.
pub fn find(case: &Case, text: &str) -> Result<Vec<Subject>, String> {
    let node = case.node;
    if let Ok(address) = text.parse() {
        return by_address(case, address).map(|subject| vec![subject]);
    }
    let known = node.known_attachments();
    let of = |is_it: &dyn Fn(&Attachment) -> bool| -> Vec<Subject> {
        let found = known.iter().filter(|one| is_it(one));
        found
            .map(|one| Subject::Pod(node.pod(one).into()))
            .collect()
    };
    let named = of(&|one| one.to_string() == text || one.container_id == text);
    if !named.is_empty() {
        return Ok(named);
    }
    if let Some(link) = node.link(text) {
        return Ok(vec![node.subject_of_link(link.index)]);
    }
    let inside = of(&|one| node.attached(one).is_some_and(|it| is_in(it, text)));
    if !inside.is_empty() {
        return Ok(inside);
    }
    let begins = known
        .iter()
        .filter(|one| one.container_id.starts_with(text));
    let ids: BTreeSet<&str> = begins.map(|one| one.container_id.as_str()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    match ids[..] {
        _ if text.is_empty() => Err("an empty name means nothing".to_owned()),
        [] => Err(format!(
            "{text:?} is no pod, namespace, address or link of this node"
        )),
        [id] => Ok(of(&|one| one.container_id == id)),
        _ => Err(format!(
            "{text:?} is the beginning of several containers' ids: {}",
            ids.join(", ")
        )),
    }
}

/// Whether an attachment's namespace has that path or name.
fn is_in(attached: &Attached, text: &str) -> bool {
    let path = attached.known.netns.as_ref();
    path.is_some_and(|path| path == Path::new(text) || path.file_name() == Some(text.as_ref()))
}

fn by_address(case: &Case, address: IpAddr) -> Result<Subject, String> {
    let node = case.node;
    if let Some(pod) = node.pod_with(address) {
        return Ok(Subject::Pod(pod.into()));
    }
    let mut own = node.addresses.iter();
    if let Some((index, _)) = own.find(|(_, own)| own.net.addr() == address) {
        return Ok(Subject::Link(*index));
    }
    let elsewhere = case.site.and_then(|site| site.peer_with(address));
    if let Some(peer) = elsewhere {
        let node = peer.name.clone();
        return Ok(Subject::Elsewhere { address, node });
    }
    Err(match case.site {
        Some(_) => format!(
            "{address} is neither a pod's or a link's of this node, nor another's of the plan"
        ),
        None => format!(
            "{address} is neither a pod's nor a link's of this node; which node has other pods says a \
             cluster file (-f)"
        ),
    })
}

impl Node {
    /// The attachments that the cache or an alias names, each once. A runtime's cache also has each
    /// pod's loopback interface, which leads nowhere.
    fn known_attachments(&self) -> BTreeSet<Attachment> {
        let cached = self.attachments.iter().flatten();
        let cached = cached.map(|one| one.known.attachment.clone());
        let cached = cached.filter(|one| one.ifname != "lo");
        let veths = self.links.iter().filter(|link| link.kind == "veth");
        cached.chain(veths.filter_map(named_by)).collect()
    }

    /// What is known of an attachment; nobody has looked into its namespace yet.
    fn pod(&self, attachment: &Attachment) -> Pod {
        let attached = self.attached(attachment);
        let veth = self.veth_of(attachment).map(|link| link.index);
        Pod {
            attachment: Some(attachment.clone()),
            netns: attached.and_then(|attached| attached.known.netns.clone()),
            ifname: attachment.ifname.clone(),
            veth: veth.or_else(|| self.peer_of(attached?)),
            inside: None,
        }
    }

    /// The other end of a link that the cache knows, where no alias says so.
    fn peer_of(&self, attached: &Attached) -> Option<u32> {
        let Netns::Open { link, .. } = &attached.netns else {
            return None;
        };
        let inner = link.as_ref()?;
        let mut links = self.links.iter();
        let outer = links.find(|outer| is_pair(inner, outer));
        outer.map(|outer| outer.index)
    }

    /// The pod that has an address: what is in the namespaces counts before the reservations.
    pub(super) fn pod_with(&self, address: IpAddr) -> Option<Pod> {
        let mut attached = self.attachments.iter().flatten();
        let has = |one: &&Attached| match &one.netns {
            Netns::Open { addresses, .. } => addresses.iter().any(|it| it.net.addr() == address),
            _ => false,
        };
        if let Some(one) = attached.find(has) {
            return Some(self.pod(&one.known.attachment));
        }
        self.networks.iter().find_map(|network| {
            let mut reserved = network.reservations.iter().flatten();
            let one = reserved.find(|one| one.address == address)?;
            let ifname = one.ifname.as_deref().unwrap_or("eth0");
            let attachment = Attachment::new(&network.name, &one.container_id, ifname);
            Some(self.pod(&attachment))
        })
    }

    /// The pod of a link, or else the link alone. An ifb is the pod's whose link is redirected to it.
    fn subject_of_link(&self, index: u32) -> Subject {
        let mut redirects = self.redirects.iter();
        let from = redirects.find(|(_, target)| *target == index);
        let index = from.map_or(index, |(from, _)| *from);
        let link = self.link_by_index(index);
        let named = link.and_then(named_by).map(|one| self.pod(&one));
        let pod = named.or_else(|| {
            let mut attached = self.attachments.iter().flatten();
            let one = attached.find(|one| self.peer_of(one) == Some(index))?;
            Some(self.pod(&one.known.attachment))
        });
        match pod.filter(|pod| pod.veth == Some(index)) {
            Some(pod) => Subject::Pod(pod.into()),
            None => Subject::Link(index),
        }
    }

    /// The pods' interfaces in a namespace: all links that have their other end on this node.
    pub fn pods_in(&self, path: &Path, inside: &Node) -> Vec<Pod> {
        let pods = inside.links.iter().filter_map(|inner| {
            let mut links = self.links.iter();
            let outer = links.find(|outer| is_pair(inner, outer))?;
            let mut cached = self.attachments.iter().flatten();
            let cached = cached.find(|one| self.peer_of(one) == Some(outer.index));
            let cached = cached.map(|one| one.known.attachment.clone());
            Some(Pod {
                attachment: named_by(outer).or(cached),
                netns: Some(path.to_owned()),
                ifname: inner.name.clone(),
                veth: Some(outer.index),
                inside: Some(Ok(inside.clone())),
            })
        });
        pods.collect()
    }
}
