use net::sysctl;

use crate::{Lab, namespaces};

#[test]
fn a_value_is_written_in_the_namespace_it_is_called_in() {
    let Some((node, pod)) = namespaces() else {
        return;
    };
    let path = "net/ipv4/ip_forward";
    let old = node
        .enter(|| sysctl::write(path, "1").expect("write"))
        .expect("enter");
    assert!(old.is_some());
    let read = |netns: &net::Netns| {
        netns
            .enter(|| sysctl::read(path).expect("read"))
            .expect("enter")
    };
    assert_eq!(read(&node).as_deref(), Some("1"));
    // A new namespace's value is the first one's, or 0: only that it is untouched is known.
    assert_eq!(read(&pod), old);
    let again = node
        .enter(|| sysctl::write(path, "1").expect("write"))
        .expect("enter");
    assert_eq!(again.as_deref(), Some("1"));
}

#[test]
fn one_that_the_kernel_lacks_is_none() {
    assert_eq!(
        sysctl::read("net/ipv4/conf/no-such-link/arp_notify").expect("read"),
        None
    );
    assert_eq!(
        sysctl::write("net/ipv4/conf/no-such-link/arp_notify", "1").expect("write"),
        None
    );
}

#[test]
fn whether_it_can_be_written_is_asked_without_a_change() {
    let Some((node, _)) = namespaces() else {
        return;
    };
    let path = "net/ipv4/ip_forward";
    let ask = || {
        let before = sysctl::read(path).expect("read");
        for value in ["0", "1"] {
            sysctl::check_write(path, value).expect("a namespace of our own");
        }
        assert_eq!(sysctl::read(path).expect("read"), before);
        sysctl::check_write("net/ipv4/conf/no-such-link/arp_notify", "1").expect("none");
        let counter = "net/netfilter/nf_conntrack_count";
        if sysctl::read(counter).expect("read").is_some() {
            sysctl::check_write(counter, "-1").expect_err("nobody can set it");
        }
    };
    node.enter(ask).expect("enter");
}

#[test]
fn an_interface_name_may_contain_dots() {
    let Some(lab) = Lab::new() else { return };
    lab.node.create_ifb("a.b.c", None, 0, 1500).expect("ifb");
    let write = || {
        sysctl::write("net/ipv4/conf/a.b.c/arp_notify", "1").expect("write");
        sysctl::read("net/ipv4/conf/a.b.c/arp_notify").expect("read")
    };
    assert_eq!(
        lab.node_netns.enter(write).expect("enter").as_deref(),
        Some("1")
    );
}

#[test]
fn an_equal_value_is_not_written() {
    // It is read-only: writing would fail.
    let value = sysctl::read("kernel/ostype").expect("read").expect("there");
    assert_eq!(
        sysctl::write("kernel/ostype", &value).expect("equal"),
        Some(value)
    );
    let error = sysctl::write("kernel/ostype", "Other").expect_err("read-only");
    assert!(
        error
            .to_string()
            .starts_with("set sysctl kernel/ostype to \"Other\": "),
        "{error}"
    );
}

#[test]
fn a_path_that_leaves_the_tree_is_refused() {
    for path in [
        "",
        "/etc/hostname",
        "net/../../etc/hostname",
        "..",
        "net/\0",
    ] {
        assert!(sysctl::read(path).is_err(), "{path:?}");
        assert!(sysctl::write(path, "1").is_err(), "{path:?}");
    }
}
