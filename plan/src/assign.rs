//! Each node's part of the pod range.

use ipnet::IpNet;

use crate::{Cluster, Fault, Node, PodRange, range};

/// A cluster with a pod range for each node.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cluster.
    pub cluster: Cluster,
    /// For each of its nodes, in the same order, a range of each of its pod ranges, in theirs.
    ranges: Vec<Vec<IpNet>>,
}

impl Plan {
    /// Keeps the ranges that nodes have, and gives the others the first free ones in the order of
    /// the nodes' names.
    ///
    /// # Errors
    /// There is no pod range; two nodes' ranges overlap; not all nodes fit; a node's address is in its
    /// own range.
    pub fn new(cluster: Cluster) -> Result<Plan, Fault> {
        if cluster.pods.is_empty() {
            let reason = "missing: expected the range of all pods, as 10.244.0.0/16 (--pod-cidr)";
            return Err(Fault::new("podSubnet", reason));
        }
        let mut ranges = vec![Vec::new(); cluster.nodes.len()];
        for pods in &cluster.pods {
            let assigned = assign(*pods, &cluster.nodes)?;
            for (of_node, range) in ranges.iter_mut().zip(assigned) {
                of_node.push(range);
            }
        }
        let plan = Plan { cluster, ranges };
        plan.check_addresses()?;
        Ok(plan)
    }

    /// A node's own bridge would have its address.
    fn check_addresses(&self) -> Result<(), Fault> {
        for (node, ranges) in self.nodes() {
            for address in &node.addresses {
                if let Some(own) = ranges.iter().find(|range| range.contains(address)) {
                    let name = &node.name;
                    let reason = format!(
                        "{address} of node {name} is in its own pod range {own}: no route can lead to it"
                    );
                    return Err(Fault::new(format!("{}.address", node.key), reason));
                }
            }
        }
        Ok(())
    }

    /// The nodes with their pod ranges, in the natural order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, &[IpNet])> {
        let ranges = self.ranges.iter().map(Vec::as_slice);
        self.cluster.nodes.iter().zip(ranges)
    }

    /// The node of that name and its pod ranges.
    pub fn node(&self, name: &str) -> Option<(&Node, &[IpNet])> {
        self.nodes().find(|(node, _)| node.name == name)
    }
}

/// A range of `pods` for each node.
fn assign(pods: PodRange, nodes: &[Node]) -> Result<Vec<IpNet>, Fault> {
    let fixed = |node: &Node| {
        let mut fixed = node.fixed.iter().copied();
        fixed.find(|fixed| range::same_family(*fixed, pods.range))
    };
    let mut taken: Vec<(IpNet, &Node)> = nodes
        .iter()
        .filter_map(|node| Some((fixed(node)?, node)))
        .collect();
    taken.sort_by_key(|(range, _)| range::bounds(*range));
    check_disjoint(&taken)?;
    let taken = taken.into_iter().map(|(range, _)| range);
    let mut free = Free::new(pods, taken.collect());
    let missing = nodes.iter().filter(|node| fixed(node).is_none());
    let wanted = missing.count() as u128;
    let fit = free.left();
    if wanted > fit {
        let (range, prefix) = (pods.range, pods.node_prefix);
        let all = nodes.len();
        let fit = fit.saturating_add(all as u128).saturating_sub(wanted);
        let reason = format!(
            "{range} is full: in ranges of /{prefix} it fits {fit} nodes, and there are {all}"
        );
        return Err(Fault::new("podSubnet", reason));
    }
    // What is asked for is there: it was counted.
    let next = |node| fixed(node).or_else(|| free.take()).unwrap_or(pods.range);
    Ok(nodes.iter().map(next).collect())
}

/// In the order of their first addresses, each must end before the next begins.
fn check_disjoint(taken: &[(IpNet, &Node)]) -> Result<(), Fault> {
    let pairs = taken.iter().zip(taken.iter().skip(1));
    for ((range, node), (next, other)) in pairs {
        if range.contains(next) || next.contains(range) {
            let reason = format!("{next} overlaps {range} of node {}", node.name);
            return Err(Fault::new(format!("{}.podCIDR", other.key), reason));
        }
    }
    Ok(())
}

/// The parts of a pod range that no node has, from the front.
struct Free {
    pods: PodRange,
    /// The places that are taken, first and last, in their order; those of small ranges may be the
    /// same ones.
    taken: std::vec::IntoIter<(u128, u128)>,
    next: u128,
}

impl Free {
    fn new(pods: PodRange, taken: Vec<IpNet>) -> Free {
        let (base, _) = range::bounds(pods.range);
        let size = pods.addresses_per_subnet();
        let place = |number: u128| number.saturating_sub(base) / size;
        let places = taken.into_iter().map(|range| {
            let (first, last) = range::bounds(range);
            (place(first), place(last))
        });
        let places: Vec<_> = places.collect();
        Free {
            pods,
            taken: places.into_iter(),
            next: 0,
        }
    }

    /// How many there are.
    fn left(&self) -> u128 {
        let mut next = 0;
        let mut free = 0_u128;
        for (first, last) in self.taken.as_slice() {
            free = free.saturating_add(first.saturating_sub(next));
            next = next.max(last.saturating_add(1));
        }
        free.saturating_add(self.pods.subnets().saturating_sub(next))
    }

    /// The first.
    fn take(&mut self) -> Option<IpNet> {
        while let Some((first, last)) = self.taken.as_slice().first() {
            if self.next < *first {
                break;
            }
            self.next = self.next.max(last.saturating_add(1));
            self.taken.next();
        }
        let place = self.next;
        self.next = place.checked_add(1)?;
        (place < self.pods.subnets())
            .then(|| range::subnet(self.pods.range, self.pods.node_prefix, place))
    }
}

#[cfg(test)]
mod tests;
