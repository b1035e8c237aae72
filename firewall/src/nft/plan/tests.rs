use super::*;
use crate::Owner;
use crate::nft::listing::FoundChain;
use crate::nft::masquerade;
use crate::rule::Family;

fn tag(container_id: &str) -> Tag {
    Tag::of(Owner {
        network: "mynet",
        container_id,
        ifname: "eth0",
    })
}

fn wanted(tag: &Tag) -> Want {
    let addresses = ["10.1.2.2/24".parse().unwrap()];
    let mut want = masquerade::want(tag, &addresses, Family::V4).unwrap();
    want.rules = vec![
        Rule {
            chain: "postrouting",
            part: expr::jump("a"),
        },
        Rule {
            chain: "postrouting",
            part: expr::jump("b"),
        },
    ];
    want
}

/// A table that has all that is wanted.
fn complete(want: &Want, tag: &Tag) -> Listing {
    let rule = |chain: &str, part: &expr::Part, comment: &str| FoundRule {
        chain: chain.to_owned(),
        handle: 7,
        expressions: part.expressions.clone(),
        comment: comment.to_owned(),
    };
    let chains = &want.table.chains;
    let shared = chains
        .iter()
        .flat_map(|chain| chain.rules.iter().map(|part| rule(&chain.name, part, "")));
    let own = want
        .rules
        .iter()
        .map(|own| rule(own.chain, &own.part, &tag.comment));
    Listing {
        exists: true,
        dormant: false,
        chains: chains
            .iter()
            .map(|chain| FoundChain {
                name: chain.name.clone(),
                hook: chain.hook,
                comment: String::new(),
            })
            .collect(),
        sets: want.table.sets.iter().map(|set| set.name).collect(),
        rules: shared.chain(own).collect(),
        entries: want
            .elements
            .iter()
            .map(|element| element.entry.clone())
            .collect(),
    }
}

#[test]
fn a_complete_table_gets_additions_alone() {
    let other = tag("other");
    let listing = complete(&wanted(&other), &other);
    let tag = tag("cont1");
    let want = wanted(&tag);
    assert!(is_complete(&want.table, &listing.rules));
    let batch = repair(&want, &listing, &tag, |entry| tag.owns(&entry.comment));
    assert_eq!(batch, additions(&want, &tag));
    assert_eq!(batch.len(), 2 + 2);
}

#[test]
fn an_empty_node_gets_table_sets_chains_and_rules_first() {
    let tag = tag("cont1");
    let want = wanted(&tag);
    let batch = repair(&want, &Listing::default(), &tag, |_| false);
    let name = want.table.name;
    assert_eq!(batch[0], name.add());
    assert_eq!(batch.len(), 1 + 2 + 2 + 2 + 2 + 2);
    assert_eq!(batch[3], name.add_chain(&want.table.chains[0]));
    assert!(!is_complete(&want.table, &[]));
}

#[test]
fn what_the_attachment_has_is_replaced() {
    let tag = tag("cont1");
    let want = wanted(&tag);
    let mut listing = complete(&want, &tag);
    let own = |entry: &Entry| tag.owns(&entry.comment);
    let batch = repair(&want, &listing, &tag, own);
    let name = want.table.name;
    assert_eq!(batch.len(), 2 + 2 + 2 + 2);
    assert_eq!(batch[2], name.delete_rule("postrouting", 7));
    // A shared rule that is gone, or behind another, is made anew with all of its chain.
    listing.rules.swap(0, 2);
    let batch = repair(&want, &listing, &tag, own);
    assert_eq!(batch[0], name.flush_chain("postrouting"));
    listing.rules.clear();
    let batch = repair(&want, &listing, &tag, own);
    let rule = &want.table.chains[0].rules[0];
    assert_eq!(batch[0], name.add_rule("postrouting", rule, ""));
}

#[test]
fn only_what_is_the_attachment_s_is_removed() {
    let (tag, other) = (tag("cont1"), tag("other"));
    let want = wanted(&tag);
    let mut listing = complete(&want, &tag);
    let others = complete(&wanted(&other), &other);
    listing.entries.extend(others.entries);
    listing.rules.extend(others.rules);
    let own = |entry: &Entry| tag.owns(&entry.comment);
    let batch = removal(&want.table, &listing, own, |comment| tag.owns(comment));
    assert_eq!(batch.len(), 2 + 2);
    assert_eq!(removal(&want.table, &Listing::default(), own, |_| true), []);
}

#[test]
fn each_thing_that_is_gone_is_missing() {
    let tag = tag("cont1");
    let want = wanted(&tag);
    let whole = complete(&want, &tag);
    assert_eq!(missing(&want, &whole, &tag), None);
    let without = |change: &dyn Fn(&mut Listing)| {
        let mut listing = whole.clone();
        change(&mut listing);
        missing(&want, &listing, &tag).unwrap()
    };
    let table = "table ip cni_lite_masquerade";
    assert_eq!(
        without(&|all| all.exists = false),
        format!("{table} not found")
    );
    for index in 0..want.table.sets.len() {
        let text = without(&|all| all.sets.truncate(index));
        assert!(text.contains(want.table.sets[index].name), "{text}");
    }
    for index in 0..whole.entries.len() {
        let text = without(&|all| drop(all.entries.remove(index)));
        assert!(text.contains(&want.elements[index].text), "{text}");
    }
    for index in 0..whole.rules.len() {
        let text = without(&|all| drop(all.rules.remove(index)));
        assert!(text.starts_with("rule ["), "{text}");
    }
    let text = without(&|all| all.chains.clear());
    assert_eq!(text, format!("chain postrouting not found in {table}"));
    let text = without(&|all| all.chains[0].hook = None);
    assert_eq!(
        text,
        format!("chain postrouting of {table} has another hook")
    );
    // The attachment's own rules in another order are others.
    assert!(without(&|all| all.rules.swap(2, 3)).contains("jump a"));
}
