//! However many host ports a pod has, they cost no more processes than one, and no more walks over
//! the kernel's connections.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::{Pod, World, kind, port, replace_iptables, with};

const COUNTS: [u16; 3] = [1, 100, 1000];

/// Has every program of iptables note in the file that it was started.
fn note_starts(world: &mut World, file: &Path) {
    let script = format!("echo $0 >> {}\nexec $real \"$@\"", file.display());
    let tools = replace_iptables(&world.node.folder().join("noting"), &script);
    let own = std::env::split_paths(&world.node.path).collect::<Vec<_>>();
    world.node.path = std::env::join_paths(std::iter::once(tools).chain(own)).unwrap();
}

/// One call; its result, and how many programs of iptables it started.
fn call(world: &World, command: &str, pod: &Pod, config: &Value) -> (Value, usize) {
    let file = world.node.folder().join("starts");
    fs::write(&file, "").unwrap();
    let answer = world.node.call(kind(config), command, pod, config, &[]);
    let starts = fs::read_to_string(&file).unwrap().lines().count();
    (answer.ok().clone(), starts)
}

/// How many are started by ADD, CHECK and DEL of all plugins, for a pod with so many ports by tcp
/// and as many by udp.
fn starts(world: &World, ports: u16) -> [usize; 3] {
    let pod = world.node.pod(&format!("pod{ports}"));
    let mapping = |number| [port(number, 80, "tcp"), port(number, 53, "udp")];
    let mappings: Vec<_> = (10_000..10_000 + ports).flat_map(mapping).collect();
    let mut configs = world.configs();
    configs[1]["runtimeConfig"]["portMappings"] = json!(mappings);
    let mut result = Value::Null;
    let mut starts = [0; 3];
    for config in &configs {
        let (told, count) = call(world, "ADD", &pod, &with(config, "prevResult", &result));
        result = told;
        starts[0] += count;
    }
    let told = |config| with(config, "prevResult", &result);
    let configs: Vec<_> = configs.iter().map(told).collect();
    for config in &configs {
        starts[1] += call(world, "CHECK", &pod, config).1;
    }
    for config in configs.iter().rev() {
        starts[2] += call(world, "DEL", &pod, config).1;
    }
    world.expect_untouched(&format!("{ports} ports"));
    starts
}

/// That it is the same for any number of ports, and more than none only where programs are needed: of
/// ADD, CHECK and DEL.
fn expect_same(world: Option<World>, any: [bool; 3]) {
    let Some(mut world) = world else {
        return;
    };
    let file = world.node.folder().join("starts");
    note_starts(&mut world, &file);
    let [one, hundred, thousand] = COUNTS.map(|ports| starts(&world, ports));
    assert_eq!((one, one), (hundred, thousand));
    assert_eq!(one.map(|count| count > 0), any, "{one:?}");
}

#[test]
fn a_thousand_ports_start_as_many_processes_as_one() {
    let add_alone = [true, false, false];
    expect_same(World::new("ports-ipv4"), add_alone);
    expect_same(World::dual_stack("ports-dual"), add_alone);
}

#[test]
fn by_nftables_no_port_starts_a_process() {
    expect_same(World::nftables("ports-nftables"), [false; 3]);
}
