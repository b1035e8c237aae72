//! The sysctls that an attachment wants: paths and values, and writing them.

use cni::{Context, Error};

/// How much depends on a sysctl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// ADD fails without it, with this message; CHECK compares it.
    Required(String),
    /// ADD goes on without it, as /proc/sys may be read-only; CHECK compares it where it can be set.
    Kept,
    /// ADD goes on without it, and others may change it later.
    Wished,
}

/// A sysctl as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// Slash path below /proc/sys: an interface's name may contain dots.
    pub path: String,
    /// Its value.
    pub value: &'static str,
    /// How much depends on it.
    pub need: Need,
}

impl Sysctl {
    fn new(path: String, value: &'static str, need: Need) -> Sysctl {
        Sysctl { path, value, need }
    }

    /// Nobody on the bridge may give the node addresses or routes.
    pub fn no_router_advertisements(link: &str) -> Sysctl {
        let path = format!("net/ipv6/conf/{link}/accept_ra");
        Sysctl::new(path, "0", Need::Wished)
    }

    /// Whether a link's addresses undergo duplicate detection.
    pub fn accept_dad(link: &str, dad: bool) -> Sysctl {
        let path = format!("net/ipv6/conf/{link}/accept_dad");
        Sysctl::new(path, if dad { "1" } else { "0" }, Need::Wished)
    }

    /// The node forwards between the pods of a bridge and the rest of the world. IPv6 looks at the
    /// node's own switch only; for IPv4 that sets the one of each interface, which is looked at.
    pub fn forwarding(bridge: &str, ipv6: bool) -> Vec<Sysctl> {
        let paths = if ipv6 {
            vec!["net/ipv6/conf/all/forwarding".into()]
        } else {
            let of_bridge = format!("net/ipv4/conf/{bridge}/forwarding");
            vec!["net/ipv4/ip_forward".into(), of_bridge]
        };
        let need = Need::Required("failed to enable forwarding".into());
        let sysctl = |path| Sysctl::new(path, "1", need.clone());
        paths.into_iter().map(sysctl).collect()
    }

    /// Those of the pod's interface: duplicate detection, gratuitous ARP, and, with an IPv6
    /// address, IPv6 itself and unsolicited neighbour advertisements.
    pub fn of_pod_interface(ifname: &str, ipv6: bool, dad: bool) -> Vec<Sysctl> {
        let v6 = |link: &str, key: &str| format!("net/ipv6/conf/{link}/{key}");
        let mut sysctls = vec![
            Sysctl::accept_dad(ifname, dad),
            Sysctl::new(
                format!("net/ipv4/conf/{ifname}/arp_notify"),
                "1",
                Need::Wished,
            ),
        ];
        if dad {
            sysctls.push(Sysctl::new(v6(ifname, "enhanced_dad"), "1", Need::Wished));
        }
        if ipv6 {
            for link in ["lo", ifname] {
                let failure = format!("failed to enable IPv6 for interface {link:?}");
                let path = v6(link, "disable_ipv6");
                sysctls.push(Sysctl::new(path, "0", Need::Required(failure)));
            }
            sysctls.push(Sysctl::new(v6(ifname, "ndisc_notify"), "1", Need::Wished));
            // Else a pod that sets its link down and up again has lost its address.
            sysctls.push(Sysctl::new(
                v6(ifname, "keep_addr_on_down"),
                "1",
                Need::Kept,
            ));
        }
        sysctls
    }

    /// Sets it in the calling thread's namespace.
    ///
    /// # Errors
    /// Only for one that is required.
    pub fn set(&self) -> Result<(), Error> {
        let write = || net::sysctl::write(&self.path, self.value);
        match (write(), &self.need) {
            (Err(error), Need::Required(failure)) => Err(error).context(failure),
            (Err(_), Need::Kept) => {
                // CHECK would miss it where only this once it could not be set.
                let _ = write();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sees that [`Sysctl::set`] would do, in the calling thread's namespace, and changes nothing.
    ///
    /// # Errors
    /// Only for one that is required.
    pub fn can_be_set(&self) -> Result<(), Error> {
        match (net::sysctl::check_write(&self.path, self.value), &self.need) {
            (Err(error), Need::Required(failure)) => Err(error).context(failure),
            _ => Ok(()),
        }
    }

    /// Compares it with what is there, in the calling thread's namespace. One that the kernel does
    /// not have is no difference, as ADD made nothing of it either.
    ///
    /// # Errors
    /// Its value is another.
    pub fn check(&self) -> Result<(), Error> {
        if self.need == Need::Wished {
            return Ok(());
        }
        let read = net::sysctl::read(&self.path);
        match read.context(format!("failed to read sysctl {}", self.path))? {
            Some(value) if value != self.value && !self.is_out_of_reach() => Err(Error::check(
                format!("sysctl {} is {value}, not {}", self.path, self.value),
            )),
            _ => Ok(()),
        }
    }

    /// Whether ADD has done without it.
    fn is_out_of_reach(&self) -> bool {
        self.need == Need::Kept && net::sysctl::check_write(&self.path, self.value).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(sysctls: &[Sysctl]) -> Vec<(&str, &str)> {
        let pairs = sysctls.iter().map(|s| (s.path.as_str(), s.value));
        pairs.collect()
    }

    #[test]
    fn an_ipv4_pod_needs_nothing_of_ipv6() {
        let sysctls = Sysctl::of_pod_interface("eth0", false, false);
        let expected = [
            ("net/ipv6/conf/eth0/accept_dad", "0"),
            ("net/ipv4/conf/eth0/arp_notify", "1"),
        ];
        assert_eq!(paths(&sysctls), expected);
        assert!(sysctls.iter().all(|s| s.need == Need::Wished));
    }

    #[test]
    fn an_ipv6_pod_with_dad_and_a_dot_in_its_name() {
        let sysctls = Sysctl::of_pod_interface("e.1", true, true);
        let expected = [
            ("net/ipv6/conf/e.1/accept_dad", "1"),
            ("net/ipv4/conf/e.1/arp_notify", "1"),
            ("net/ipv6/conf/e.1/enhanced_dad", "1"),
            ("net/ipv6/conf/lo/disable_ipv6", "0"),
            ("net/ipv6/conf/e.1/disable_ipv6", "0"),
            ("net/ipv6/conf/e.1/ndisc_notify", "1"),
            ("net/ipv6/conf/e.1/keep_addr_on_down", "1"),
        ];
        assert_eq!(paths(&sysctls), expected);
    }
}
