//! One namespace: a node, a pod, or a host outside.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use net::{Netlink, Netns, Route};

use crate::{Error, Result};

/// A network namespace bound to a path. It is removed with its [`crate::Lab`], or by
/// [`Namespace::remove`]; merely dropping it leaves it to the lab.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    path: PathBuf,
    netns: Netns,
}

impl Namespace {
    /// Makes the namespace and brings its loopback up.
    pub(crate) fn create(name: String, path: PathBuf) -> Result<Namespace> {
        let netns = net::netns::create(&path)?;
        let namespace = Namespace { name, path, netns };
        namespace.set_up("lo")?;
        Ok(namespace)
    }

    /// One that is there, whoever made it; nobody removes it.
    ///
    /// # Errors
    /// There is none at the path.
    pub fn open(path: &Path) -> Result<Namespace> {
        Ok(Namespace {
            name: path.display().to_string(),
            path: path.to_owned(),
            netns: Netns::open(path)?,
        })
    }

    /// The name by which `ip netns exec` finds it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path that a runtime hands over as `CNI_NETNS`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Runs `inside` on this thread in the namespace, and comes back. Sockets opened and processes
    /// started by it belong to the namespace.
    ///
    /// # Errors
    /// The kernel's, where the namespace cannot be entered.
    pub fn run<T>(&self, inside: impl FnOnce() -> T) -> Result<T> {
        Ok(self.netns.enter(inside)?)
    }

    /// A route socket in the namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn netlink(&self) -> Result<Netlink> {
        Ok(Netlink::in_netns(&self.netns)?)
    }

    /// Equivalent to `ip link set LINK up`.
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses.
    pub fn set_up(&self, link: &str) -> Result<()> {
        let netlink = self.netlink()?;
        netlink.set_up(self.index_of(&netlink, link)?)?;
        Ok(())
    }

    /// Equivalent to `ip address add ADDRESS nodad dev LINK`.
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses.
    pub fn add_address(&self, link: &str, address: IpNet) -> Result<()> {
        let netlink = self.netlink()?;
        netlink.add_address(self.index_of(&netlink, link)?, address, true)?;
        Ok(())
    }

    /// Equivalent to `ip route add DESTINATION via GATEWAY dev LINK`.
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses.
    pub fn add_route(&self, destination: IpNet, gateway: IpAddr, link: &str) -> Result<()> {
        let netlink = self.netlink()?;
        let index = self.index_of(&netlink, link)?;
        netlink.add_route(&Route::new(destination, Some(gateway), index))?;
        Ok(())
    }

    /// Removes the namespace now, with all that is in it, once no process or socket holds it.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove(self) -> Result<()> {
        Ok(net::netns::remove(&self.path)?)
    }

    fn index_of(&self, netlink: &Netlink, link: &str) -> Result<u32> {
        netlink
            .link(link)?
            .map(|found| found.index)
            .ok_or_else(|| Error::Failed(format!("{}: no link {link:?}", self.name)))
    }
}
