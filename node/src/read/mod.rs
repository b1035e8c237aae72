//! Reading a node: each kind of thing in a file of its own. Nothing is changed.

mod agent;
mod attachments;
mod kernel;
mod networks;
mod programs;
mod sockets;

use std::path::PathBuf;

use cni::runtime::Runtime;

use crate::node::{Node, Unread};

/// Where a node keeps what is not the kernel's.
#[derive(Debug, Clone)]
pub struct Places {
    /// The folder of configurations.
    pub conf: PathBuf,
    /// The folders of plugins and of the cache.
    pub runtime: Runtime,
}

impl Node {
    /// Reads the calling thread's namespace, and the folders. What cannot be read is in `unread`.
    pub fn read(places: &Places) -> Node {
        let mut node = Node {
            host: kernel::host_name(),
            conf: places.conf.clone(),
            plugins: places.runtime.path.clone(),
            cache: places.runtime.cache.clone(),
            ..Node::default()
        };
        node.read_kernel();
        node.read_rules();
        node.read_networks(&places.conf);
        node.read_programs(&places.runtime);
        node.read_attachments(&places.runtime);
        node.read_sockets();
        node
    }

    /// Reads links, addresses and routes alone.
    ///
    /// # Errors
    /// The first that cannot be read.
    pub fn read_routes() -> Result<Node, Unread> {
        let mut node = Node::default();
        node.read_links();
        match node.unread.pop() {
            Some(unread) => Err(unread),
            None => Ok(node),
        }
    }

    /// Reads links, addresses and routes, and the folders of configurations and reservations: what
    /// an agent that makes them has to know.
    ///
    /// # Errors
    /// Links, addresses or routes cannot be read. What else could not be is in `unread`.
    pub fn read_networking(places: &Places) -> Result<Node, Unread> {
        let mut node = Node::read_routes()?;
        node.conf.clone_from(&places.conf);
        node.plugins.clone_from(&places.runtime.path);
        node.cache.clone_from(&places.runtime.cache);
        node.read_networks(&places.conf);
        Ok(node)
    }

    /// Reads what is in a pod's namespace: links, addresses, routes and sockets.
    ///
    /// # Errors
    /// The first that cannot be read.
    pub fn read_pod() -> Result<Node, Unread> {
        let mut node = Node::read_routes()?;
        node.read_sockets();
        match node.unread.pop() {
            Some(unread) => Err(unread),
            None => Ok(node),
        }
    }

    fn read_rules(&mut self) {
        self.rules = firewall::view::View::read();
        let unread = std::mem::take(&mut self.rules.unread);
        for text in unread {
            let (what, why) = text.split_once(": ").unwrap_or((&text, ""));
            self.note(what, why);
        }
    }

    /// Notes what could not be read; the value where it could.
    fn seen<T, E: ToString>(&mut self, what: &str, read: Result<T, E>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.note(what, &error.to_string());
                None
            }
        }
    }

    fn note(&mut self, what: &str, why: &str) {
        self.unread.push(Unread {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }
}
