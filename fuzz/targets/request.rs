//! A call with any configuration.

use cni::{Command, Config, Env, Request};

/// An ADD, where the bytes are a configuration at all.
pub fn add(bytes: &[u8]) -> Option<Request> {
    let env = Env {
        command: Command::Add,
        container_id: "pod".to_owned(),
        netns: None,
        ifname: "eth0".to_owned(),
        args: String::new(),
        path: Vec::new(),
        netns_override: false,
    };
    let config = Config::parse(bytes.to_vec()).ok()?;
    Some(Request::new(env, config))
}
