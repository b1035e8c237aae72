//! CNI_ARGS, as plugins and as podnet read them.

#![no_main]

use cni::{Command, Env, runtime};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let env = Env {
        command: Command::Add,
        container_id: "pod".to_owned(),
        netns: None,
        ifname: "eth0".to_owned(),
        args: text.to_owned(),
        path: Vec::new(),
        netns_override: false,
    };
    for key in ["IP", "MAC", "K8S_POD_NAME"] {
        drop(env.arg(key, &["IP", "MAC"]));
    }
    drop(runtime::parse_args(text));
});
