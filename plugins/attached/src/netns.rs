//! The pod's namespace, as `CNI_NETNS` names it.

use std::path::Path;

use cni::{Context, Error, Request, code};
use net::{Netlink, Netns};

/// Opens it, for ADD and CHECK.
///
/// # Errors
/// Code 4 where it is no namespace, or our own and `CNI_NETNS_OVERRIDE` does not allow that.
pub fn open(request: &Request) -> Result<Netns, Error> {
    let path = request.env.netns.as_deref().unwrap_or(Path::new(""));
    let invalid = |msg: String| {
        Error::new(code::INVALID_ENVIRONMENT, msg).details(format!("CNI_NETNS={}", path.display()))
    };
    let netns = Netns::open(path).map_err(|error| invalid(error.to_string()))?;
    if is_our_own(&netns).context("failed to compare namespaces")? && !request.env.netns_override {
        return Err(invalid(
            "plugin's netns and netns from CNI_NETNS should not be the same".into(),
        ));
    }
    Ok(netns)
}

/// A socket in it for DEL: `None` where there is no such namespace any more, or where it is our own,
/// whose interfaces are no pod's.
pub fn socket_if_there(request: &Request) -> Option<Netlink> {
    let netns = Netns::open(request.env.netns.as_deref()?).ok()?;
    match is_our_own(&netns) {
        Ok(false) => Netlink::in_netns(&netns).ok(),
        _ => None,
    }
}

fn is_our_own(netns: &Netns) -> net::Result<bool> {
    Netns::current()?.same_as(netns)
}

#[cfg(test)]
mod tests {
    use cni::{Command, Config, Env};

    use super::*;

    fn request(netns: &str, netns_override: bool) -> Request {
        let value = |name: &str| match name {
            "CNI_NETNS" => netns,
            "CNI_NETNS_OVERRIDE" if netns_override => "1",
            "CNI_NETNS_OVERRIDE" => "",
            _ => "x",
        };
        Request::new(
            Env::read(Command::Add, |name| Some(value(name).to_owned())).unwrap(),
            Config::parse(br#"{"name": "n"}"#.to_vec()).unwrap(),
        )
    }

    #[test]
    fn our_own_is_refused_unless_it_is_allowed() {
        let own = "/proc/thread-self/ns/net";
        let error = open(&request(own, false)).unwrap_err();
        assert_eq!(error.code, code::INVALID_ENVIRONMENT);
        assert!(error.msg.contains("should not be the same"), "{error}");
        assert_eq!(error.details, format!("CNI_NETNS={own}"));
        assert!(open(&request(own, true)).is_ok());
        for netns_override in [false, true] {
            assert!(socket_if_there(&request(own, netns_override)).is_none());
        }
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        for path in ["/proc/thread-self/ns/none", "/proc/thread-self/status"] {
            let error = open(&request(path, true)).unwrap_err();
            assert_eq!(error.code, code::INVALID_ENVIRONMENT);
            assert!(error.msg.starts_with("failed to open netns"), "{error}");
            assert!(socket_if_there(&request(path, true)).is_none());
        }
    }
}
