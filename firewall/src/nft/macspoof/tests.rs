use std::process::{Command, Stdio};

use super::*;
use crate::nft::expr::{self, Part};
use crate::nft::tag::Tag;
use crate::nft::wire::tests::received;

fn owner(container_id: &str) -> Owner<'_> {
    Owner {
        network: "n",
        container_id,
        ifname: "eth0",
    }
}

/// What is sent where nothing is there: in one batch, which kernels that have no nf_tables for bridges
/// refuse. The bytes of each message, and of the parts of rules, are compared with those of `nft`.
#[test]
fn the_first_filter_of_a_node_is_all_in_one_batch() {
    let want = want(owner("cont1"), "veth0", [2, 0, 0x5e, 0x10, 0, 1]);
    let rule = |chain: &str, parts: &[Part]| {
        let part = Part::all(parts.iter().cloned());
        TABLE.add_rule(chain, &part, "macspoofchk-cont1-eth0")
    };
    let (frames, sources) = ("cni-br-iface-cont1-eth0", "cni-br-iface-cont1-eth0-mac");
    let comment = &Tag::of(owner("cont1")).comment;
    let known = expr::source_mac_is([2, 0, 0x5e, 0x10, 0, 1]);
    let expected = [
        TABLE.add(),
        TABLE.add_chain(&shared()),
        TABLE.create_chain(sources, comment),
        rule(sources, &[known, expr::back()]),
        rule(sources, &[expr::drop_it()]),
        TABLE.create_chain(frames, comment),
        rule(frames, &[expr::jump(sources)]),
        rule(
            PREROUTING,
            &[expr::input_is("veth0", false), expr::jump(frames)],
        ),
    ];
    assert_eq!(want.addition(&Listing::default()), expected);
}

#[test]
fn a_rule_tells_its_interface_where_it_is_for_one() {
    let input = |parts: &[Part]| {
        let part = Part::all(parts.iter().cloned());
        crate::nft::read::input(&part.expressions).map(str::to_owned)
    };
    let only = |name, inverted| input(&[expr::input_is(name, inverted), expr::drop_it()]);
    assert_eq!(only("veth0", false).as_deref(), Some("veth0"));
    for (name, inverted) in [("veth*", false), ("veth0", true)] {
        assert_eq!(only(name, inverted), None, "{name} {inverted}");
    }
    assert_eq!(input(&[expr::drop_it()]), None);
    assert_eq!(input(&[expr::source_mac_is([0; 6])]), None);
    assert_eq!(input(&[]), None);
}

/// Rules and chains that are none of ours: in tables of other families, in another of bridges, and
/// beside ours.
fn foreign() -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for table in ["ip nat", "inet x", "bridge x", "bridge nat"] {
        let _ = write!(text, "add table {table}\nadd chain {table} crowd\n");
        for _ in 0..500 {
            let _ = writeln!(text, "add rule {table} crowd ether type arp accept");
        }
    }
    text
}

fn nft(text: &str) {
    use std::io::Write as _;
    let nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn();
    let mut nft = nft.unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(nft.wait().unwrap().success());
}

/// How many messages the kernel sends for each verb, one after the other.
fn counts() -> [usize; 4] {
    let mac = [2, 0, 0, 0, 0, 1];
    [
        received(|| add(owner("cont1"), "veth0", mac).unwrap()),
        received(|| check(owner("cont1"), "veth0", mac).unwrap()),
        received(|| delete(owner("cont1"), true).unwrap()),
        received(|| gc("n", &[owner("other")], |_| false).unwrap()),
    ]
}

#[test]
fn a_large_ruleset_of_others_is_not_looked_at() {
    let lab = lab::Lab::new("macspoof").unwrap();
    let node = match lab.namespace("node") {
        Ok(node) if lab::find_tool("nft").is_some() => node,
        Ok(_) => return lab::skip("nft is not installed"),
        Err(error) => return lab::skip(&format!("no network namespace can be made: {error}")),
    };
    node.run(|| {
        if let Err(Error::Unsupported(why)) = preflight() {
            return lab::skip(&why);
        }
        add(owner("other"), "veth1", [2, 0, 0, 0, 0, 2]).unwrap();
        let alone = counts();
        nft(&foreign());
        // GC asks for the names of chains of bridges, of which there is one more in each table.
        let [adds, checks, deletes, gcs] = alone;
        assert_eq!(counts(), [adds, checks, deletes, gcs + 2]);
        assert!(
            adds < 10 && checks < 20 && deletes < 15 && gcs < 15,
            "{alone:?}"
        );
    })
    .unwrap();
}
