//! A pod that comes, is checked and goes, by plugins that are watched.

use std::sync::Arc;

use cni::Version;
use cni::runtime::{Exec, NetworkList};
use serde_json::{Map, Value};

use crate::Outcome;
use crate::asked::capabilities;
use crate::node::{Node, Pod};

/// The pod, its node, and who watches.
#[derive(Debug)]
pub(super) struct Watched<'a, W> {
    pub(super) node: &'a Node,
    pub(super) watch: Arc<W>,
    list: NetworkList,
    pod: Pod,
    asked: Map<String, Value>,
}

impl<W: Exec + 'static> Watched<'_, W> {
    /// On a node whose plugins are run by `watch` from now on.
    pub(super) fn new(node: &mut Node, watch: W) -> Outcome<Watched<'_, W>> {
        let watch = Arc::new(watch);
        node.runtime.exec = watch.clone();
        Ok(Watched {
            list: node.list(0, Version::V1_0_0)?,
            pod: node.pod("pod")?,
            asked: capabilities(8080, 1),
            watch,
            node,
        })
    }

    /// ADD, CHECK and DEL.
    pub(super) fn life(&self) -> Outcome<()> {
        self.node.life(&self.list, &self.pod, &self.asked).map(drop)
    }
}
