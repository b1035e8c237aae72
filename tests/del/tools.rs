//! DEL on a machine whose iptables has gone.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use tests::{World, failures, kind, replace_iptables, sh, with, without_tools};

/// No tool is found on it.
const NO_PATH: &[(&str, &str)] = &[("PATH", "/does/not/exist")];

/// The chain of a pod that needs no rules.
fn ruleless(configs: &[Value]) -> Vec<Value> {
    let mut configs = configs.to_vec();
    configs[0] = with(&configs[0], "ipMasq", &Value::Null);
    configs[1] = with(&configs[1], "runtimeConfig", &Value::Null);
    configs
}

#[test]
fn a_pod_with_neither_ports_nor_masquerade_needs_none() {
    if let Some(world) = World::new("tools-none") {
        needs_none(&world);
    }
    if let Some(world) = World::legacy("tools-none-legacy") {
        needs_none(&world);
    }
}

fn needs_none(world: &World) {
    let empty = json!({ "portMappings": [] });
    let no_ports = ruleless(&world.configs());
    let mut empty_ports = no_ports.clone();
    empty_ports[1] = with(&no_ports[1], "runtimeConfig", &empty);
    for (case, configs) in [("no-ports", no_ports), ("empty-ports", empty_ports)] {
        let pod = world.node.pod(case);
        let result = world.node.add_each(&configs, &pod);
        for (round, previous) in [("DEL", result), ("DEL again", Value::Null)] {
            let with_result = |config| with(config, "prevResult", &previous);
            let configs: Vec<_> = configs.iter().map(with_result).collect();
            let answers = world
                .node
                .del_each_as(without_tools, &configs, &pod, NO_PATH);
            assert!(
                failures(&answers).is_empty(),
                "{case}: {round}: {answers:?}"
            );
            world.expect_bare(case, &pod);
            world.expect_untouched(case);
        }
    }
}

/// Where its ADD found none either, nothing can be there.
#[test]
fn a_pod_whose_ports_could_not_be_mapped_needs_none() {
    let Some(world) = World::dual_stack("tools-never") else {
        return;
    };
    let mut configs = world.configs();
    configs[0] = with(&configs[0], "ipMasq", &Value::Null);
    configs[1] = with(&configs[1], "backend", &json!("iptables"));
    let pod = world.node.pod("pod");
    let result = world.node.add_each(&configs[..1], &pod);
    let portmap = with(&configs[1], "prevResult", &result);
    let process = without_tools(world.node.bin.join("portmap"));
    let refused = world.node.call_as(process, "ADD", &pod, &portmap, NO_PATH);
    refused.expect_refused("ADD", 100, &["iptables not found"]);
    let answers = world
        .node
        .del_each_as(without_tools, &configs, &pod, NO_PATH);
    assert!(failures(&answers).is_empty(), "{answers:?}");
    world.expect_bare("DEL", &pod);
    world.expect_untouched("DEL");
}

/// Releases and variants of iptables, and languages, differ in their words.
#[test]
fn no_verb_depends_on_the_words_of_iptables() {
    let Some(mut world) = World::dual_stack("tools-words") else {
        return;
    };
    let script = "$real \"$@\" 2> /dev/null && exit\n\
                  status=$?; echo 'ça ne va pas' >&2; exit $status";
    let folder = replace_iptables(&world.node.folder().join("tools"), script);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    world.node.path = path.into();
    for round in ["once", "twice"] {
        let (pod, configs) = world.pod(round);
        let check = |config: &Value| world.node.call(kind(config), "CHECK", &pod, config, &[]);
        for config in &configs {
            check(config).ok();
        }
        for time in ["first", "second"] {
            world.del(time, &configs, &pod, &[]);
            world.expect_bare(time, &pod);
            world.expect_untouched(time);
        }
        let (code, message) = check(&configs[1]).error();
        assert_eq!(code, 101, "{message}");
    }
}

#[test]
fn tools_of_administration_are_found_without_path() {
    for world in World::of_each_family("tools-sbin") {
        let (pod, configs) = world.pod("pod");
        world.del("without PATH", &configs, &pod, NO_PATH);
        world.expect_untouched("without PATH");
    }
}

#[test]
fn of_the_nft_variant_none_is_needed() {
    for world in World::of_each_family("tools-nft").chain(World::dual_stack("tools-nft-dual")) {
        let (pod, configs) = world.pod("pod");
        for time in ["first", "second"] {
            let answers = world
                .node
                .del_each_as(without_tools, &configs, &pod, NO_PATH);
            assert!(failures(&answers).is_empty(), "{time}: {answers:?}");
            world.expect_bare(time, &pod);
            world.expect_untouched(time);
        }
    }
}

/// Of the nft variant a chain to which somebody else leads takes a program.
fn lead_to_chains(world: &World, rules: &[String]) {
    for program in ["iptables", "ip6tables"] {
        sh(&world.node.namespace, &format!("{program} -t nat -N OTHER"));
        for prefix in ["CNI-DN-", "CNI-"] {
            let chain = chain(rules, prefix);
            let jump = format!("{program} -t nat -A OTHER -j {chain}");
            sh(&world.node.namespace, &jump);
        }
    }
}

/// All but the rules goes, the error names them, and DEL with the tools back removes them.
#[test]
fn what_cannot_be_removed_is_named_and_all_else_is_freed() {
    // What is taken from the configurations.
    let cases = [
        ("full", "nothing"),
        ("no-result", "prevResult"),
        ("no-capabilities", "runtimeConfig"),
    ];
    if let Some(world) = World::dual_stack("tools-lost") {
        is_named_and_all_else_is_freed(&world, &cases, true);
    }
    if let Some(world) = World::legacy("tools-lost-legacy") {
        is_named_and_all_else_is_freed(&world, &cases, false);
    }
}

fn is_named_and_all_else_is_freed(world: &World, cases: &[(&str, &str)], is_nft: bool) {
    for (case, key) in cases {
        let (pod, configs) = world.pod(case);
        if is_nft {
            lead_to_chains(world, &world.left().rules);
        }
        let rules = world.left().rules;
        let configs: Vec<_> = configs
            .iter()
            .map(|config| with(config, key, &Value::Null))
            .collect();
        let answers = world
            .node
            .del_each_as(without_tools, &configs, &pod, NO_PATH);
        let [bandwidth, portmap, bridge] = &answers[..] else {
            panic!("{case}: {answers:?}");
        };
        bandwidth.ok();
        for (answer, prefix) in [(portmap, "CNI-DN-"), (bridge, "CNI-")] {
            let (code, message) = answer.error();
            assert_eq!(code, 100, "{case}: {message}");
            let chain = chain(&rules, prefix);
            let attachment = format!("{}/{case}/eth0", world.list.name);
            for words in [
                chain,
                &attachment,
                "iptables not found",
                "ip6tables not found",
            ] {
                assert!(message.contains(words), "{case}: {words}: {message}");
            }
        }
        world.expect_bare(case, &pod);
        let left = world.left();
        assert_eq!(left.rules, rules, "{case}");
        let rest = left.filter(|line| !rules.iter().any(|rule| rule == line));
        assert!(rest.is_empty(), "{case}: left:\n{rest}");
        world.expect_other_served(case);

        world.del(case, &configs, &pod, &[]);
        if is_nft {
            for program in ["iptables", "ip6tables"] {
                sh(&world.node.namespace, &format!("{program} -t nat -X OTHER"));
            }
        }
        world.expect_untouched(case);
    }
}

/// The chain that is the pod's and has that prefix and only hexadecimal digits behind it.
fn chain<'a>(rules: &'a [String], prefix: &str) -> &'a str {
    let declared = rules.iter().filter_map(|line| line.split_once(": :"));
    let mut names = declared.filter_map(|(_, line)| line.split_whitespace().next());
    let is_it = |name: &&str| {
        let hash = name.strip_prefix(prefix);
        hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    names.find(is_it).unwrap()
}
