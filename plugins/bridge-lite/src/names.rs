//! Names of interfaces that ADD makes: some that the kernel takes mean something else to it.

use cni::{Error, code};
use net::link::is_name;

const ALLOWED: &str = "allowed: 1 to 15 bytes without `/`, `:`, `%` or white space, but not \
                       `all` or `default`";

/// Refuses a name for the bridge that cannot be one.
///
/// # Errors
/// Code 7.
pub fn of_bridge(name: &str) -> Result<(), Error> {
    if is_usable(name) {
        return Ok(());
    }
    let msg = format!("bridge: {name:?} is not an interface name");
    Err(Error::config(msg).details(ALLOWED))
}

/// Refuses a name for a VLAN's gateway, made of the bridge's and the VLAN's id, that is too long.
///
/// # Errors
/// Code 7.
pub fn of_gateway(name: &str) -> Result<(), Error> {
    if is_usable(name) {
        return Ok(());
    }
    let msg = format!("vlan: gateway {name:?} is not an interface name");
    Err(Error::config(msg).details(
        "BRIDGE.VLAN has more than 15 bytes; allowed: a shorter name for the bridge, or isGateway: \
         false",
    ))
}

/// Refuses a name for the pod's interface that cannot be one.
///
/// # Errors
/// Code 4.
pub fn of_pod_interface(name: &str) -> Result<(), Error> {
    if is_usable(name) {
        return Ok(());
    }
    let msg = format!("CNI_IFNAME: {name:?} is not an interface name");
    Err(Error::new(code::INVALID_ENVIRONMENT, msg).details(ALLOWED))
}

/// The kernel's rules, and two more: a `%` is a pattern to it, and `all` and `default` are the
/// folders of /proc/sys/net/ipv4/conf that belong to no interface.
fn is_usable(name: &str) -> bool {
    is_name(name) && !name.contains('%') && !matches!(name, "all" | "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_else_to_the_kernel_is_refused_by_key_and_value() {
        for name in ["", "a/b", "sixteen-bytes-xx", "br%d", "%", "all", "default"] {
            for (refused, code, key) in [
                (of_bridge(name), 7, "bridge"),
                (of_pod_interface(name), 4, "CNI_IFNAME"),
            ] {
                let error = refused.unwrap_err();
                assert_eq!(error.code, code, "{error}");
                let begin = format!("{key}: {name:?} ");
                assert!(error.msg.starts_with(&begin), "{error}");
                assert!(error.details.contains("`default`"), "{error}");
            }
        }
        for name in ["eth0", "all0", "Default", "br-lan"] {
            of_bridge(name).unwrap();
            of_pod_interface(name).unwrap();
        }
    }
}
