//! The environment: five variables, a zero byte between them; and what CNI_ARGS say.

#![no_main]

use cni::{Command, Env};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let values: Vec<&str> = text.split('\0').collect();
    let names = [
        "CNI_CONTAINERID",
        "CNI_NETNS",
        "CNI_IFNAME",
        "CNI_PATH",
        "CNI_ARGS",
    ];
    let lookup = |name: &str| {
        let place = names.iter().position(|known| *known == name)?;
        values.get(place).map(|value| (*value).to_owned())
    };
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"] {
        let command = Command::parse(command).unwrap();
        let Ok(env) = Env::read(command, lookup) else {
            continue;
        };
        // They name files, links and rules.
        let plain = |text: &str| !text.contains(['/', '\0', '\n', ' ', '"']);
        assert!(plain(&env.container_id) && !env.ifname.contains('/'));
    }
});
