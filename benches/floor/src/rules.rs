//! Masquerade and a host port: elements of maps (linux/netfilter/nf_tables.h), or rules by
//! iptables-restore, as often as two plugins must start it.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::message::{Attributes, Batch};
use crate::socket::Socket;
use crate::{GATEWAY, PREFIX, Pod};

/// The table, and its maps, that the benchmark makes.
const TABLE: &str = "floor";
const PORTS: &str = "ports";
const SOURCES: &str = "sources";
const MASQUERADE: &str = "pods";
/// The chains that the maps lead to.
const MARK_CHAIN: &str = "marked";
const MASQUERADE_CHAIN: &str = "outside";

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM << 8 | 14;
const NLM_F_CREATE: u16 = 0x400;

const LIST_TABLE: u16 = 1;
const LIST_SET: u16 = 2;
const LIST_ELEMENTS: u16 = 3;
const LIST_ELEM: u16 = 1;
const ELEM_KEY: u16 = 1;
const ELEM_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
/// `NFT_JUMP`.
const JUMP: i32 = -3;

const AF_INET: u8 = 2;
const TCP: u8 = 6;
const CONTAINER_PORT: u16 = 80;

/// Makes both.
pub fn add(pod: Pod, nftables: bool) -> io::Result<()> {
    if nftables {
        return Socket::netfilter()?.send(&elements(NEW_ELEMENTS, NLM_F_CREATE, pod));
    }
    restore(&masquerade(pod))?;
    restore(&host_port(pod))
}

/// Removes both.
pub fn del(pod: Pod, nftables: bool) -> io::Result<()> {
    if nftables {
        return Socket::netfilter()?.send(&elements(DELETE_ELEMENTS, 0, pod));
    }
    restore(&removal(&host_port(pod)))?;
    restore(&removal(&masquerade(pod)))
}

/// What an element leads to.
enum Leads<'a> {
    To(&'a [u8]),
    Into(&'a str),
}

/// One transaction about the three elements of a pod.
fn elements(kind: u16, flags: u16, pod: Pod) -> Batch {
    // `struct nfgenmsg`.
    let (any, ipv4) = ([0, 0, 0, SUBSYSTEM.to_be_bytes()[1]], [AF_INET, 0, 0, 0]);
    let address = pod.address().octets();
    // Parts of a key, and of what it leads to, are padded to four bytes each.
    let [high, low] = pod.host_port().to_be_bytes();
    let port = [TCP, 0, 0, 0, high, low, 0, 0];
    let [high, low] = CONTAINER_PORT.to_be_bytes();
    let target = [&address[..], &[high, low, 0, 0]].concat();
    let lists = [
        (PORTS, &port[..], Leads::To(&target)),
        (SOURCES, &port, Leads::Into(MARK_CHAIN)),
        (MASQUERADE, &address, Leads::Into(MASQUERADE_CHAIN)),
    ];
    let begin = Batch::default().with(BATCH_BEGIN, 0, &any, |_| {});
    let about = |batch: Batch, (set, key, leads): &(&str, &[u8], Leads)| {
        batch.with(kind, flags, &ipv4, |list| element(list, set, key, leads))
    };
    let batch = lists.iter().fold(begin, about).acknowledged();
    batch.with(BATCH_END, 0, &any, |_| {})
}

fn element(list: &mut Attributes, set: &str, key: &[u8], leads: &Leads) {
    list.text(LIST_TABLE, TABLE)
        .text(LIST_SET, set)
        .nest(LIST_ELEMENTS, |elements| {
            elements.nest(LIST_ELEM, |element| {
                element.nest(ELEM_KEY, |data| {
                    data.put(DATA_VALUE, key);
                });
                element.nest(ELEM_DATA, |data| match leads {
                    Leads::To(value) => {
                        data.put(DATA_VALUE, value);
                    }
                    Leads::Into(chain) => {
                        data.nest(DATA_VERDICT, |verdict| {
                            verdict
                                .put(VERDICT_CODE, &JUMP.to_be_bytes())
                                .text(VERDICT_CHAIN, chain);
                        });
                    }
                });
            });
        });
}

/// The lines of a pod's masquerade: its own chain, what is in it, and what leads to it.
fn masquerade(pod: Pod) -> Vec<String> {
    let (address, chain) = (pod.address(), format!("FLOOR-{}", pod.number));
    let comment = format!(
        "-m comment --comment \"name: \\\"floor\\\" id: \\\"{}\\\"\"",
        pod.number
    );
    vec![
        format!("-N {chain}"),
        format!("-A {chain} -d {GATEWAY}/{PREFIX} {comment} -j ACCEPT"),
        format!("-A {chain} ! -d 224.0.0.0/4 {comment} -j MASQUERADE"),
        format!("-A POSTROUTING -s {address}/32 {comment} -j {chain}"),
    ]
}

/// Those of its host port. The chains that all share are the benchmark's.
fn host_port(pod: Pod) -> Vec<String> {
    let (address, chain) = (pod.address(), format!("FLOOR-DN-{}", pod.number));
    let port = format!("-p tcp -m tcp --dport {}", pod.host_port());
    vec![
        format!("-N {chain}"),
        format!("-A {chain} -s {GATEWAY}/{PREFIX} {port} -j FLOOR-SETMARK"),
        format!("-A {chain} -s 127.0.0.1/32 {port} -j FLOOR-SETMARK"),
        format!("-A {chain} {port} -j DNAT --to-destination {address}:{CONTAINER_PORT}"),
        format!(
            "-A FLOOR-DNAT -p tcp -m comment --comment \"dnat name: \\\"floor\\\" id: \\\"{}\\\"\" \
             -m multiport --dports {} -j {chain}",
            pod.number,
            pod.host_port()
        ),
    ]
}

/// The lines that take others back: what leads to the chain, then what is in it, then itself.
fn removal(lines: &[String]) -> Vec<String> {
    let chain = |line: &String| line.strip_prefix("-N ").map(str::to_owned);
    let own = lines.iter().find_map(chain).unwrap_or_default();
    let rule = |line: &String| Some(format!("-D {}", line.strip_prefix("-A ")?));
    let rules = lines.iter().rev().filter_map(rule);
    rules.chain([format!("-X {own}")]).collect()
}

fn restore(lines: &[String]) -> io::Result<()> {
    let mut child = Command::new("iptables-restore")
        .args(["--noflush", "-w", "5"])
        .stdin(Stdio::piped())
        .spawn()?;
    let batch = format!("*nat\n{}\nCOMMIT\n", lines.join("\n"));
    // Closed at once: it reads to the end.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes())?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("iptables-restore: {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_removed_in_reverse() {
        let lines = removal(&masquerade(Pod { number: 7 }));
        let comment = "-m comment --comment \"name: \\\"floor\\\" id: \\\"7\\\"\"";
        let expected = [
            format!("-D POSTROUTING -s 10.64.3.7/32 {comment} -j FLOOR-7"),
            format!("-D FLOOR-7 ! -d 224.0.0.0/4 {comment} -j MASQUERADE"),
            format!("-D FLOOR-7 -d 10.64.0.1/22 {comment} -j ACCEPT"),
            "-X FLOOR-7".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}
