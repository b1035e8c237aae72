//! Answers as short tables, for people.

use std::net::IpAddr;

use cni::{AddResult, Interface, IpConfig, Route, one_line};

use crate::every::Checked;
use crate::garbage::Known;
use crate::network::Versions;

/// A result of ADD.
pub fn result(result: &AddResult) -> String {
    let ip = |ip: &IpConfig| {
        let interface = result.interface_of(ip).map(|i| i.name.clone());
        vec![
            ip.address.to_string(),
            text(ip.gateway),
            interface.unwrap_or_default(),
        ]
    };
    let dns = &result.dns;
    let lists = [
        ("nameservers", dns.nameservers.join(" ")),
        ("domain", dns.domain.clone()),
        ("search", dns.search.join(" ")),
        ("options", dns.options.join(" ")),
    ];
    let dns = lists
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| vec![name.to_owned(), value]);
    [
        columns(
            &["INTERFACE", "MAC", "MTU", "NAMESPACE"],
            result.interfaces.iter().map(interface).collect(),
        ),
        columns(
            &["ADDRESS", "GATEWAY", "INTERFACE"],
            result.ips.iter().map(ip).collect(),
        ),
        columns(&["ROUTE", "VIA"], result.routes.iter().map(route).collect()),
        columns(&["DNS", ""], dns.collect()),
    ]
    .into_iter()
    .filter(|table| !table.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}

/// The versions that plugins speak.
pub fn versions(versions: &Versions) -> String {
    let rows = versions.iter().map(|(kind, answer)| {
        let answer = match answer {
            Ok(versions) => versions.join(" "),
            Err(error) => format!("error: {error}"),
        };
        vec![kind.clone(), answer]
    });
    columns(&["PLUGIN", "VERSIONS"], rows.collect())
}

/// Who lives and who does not; of which network where all are meant.
pub fn known(known: &[Known], of_all: bool) -> String {
    let head = ["NETWORK", "CONTAINER", "INTERFACE", "STATE", "WHY"];
    let first = usize::from(!of_all);
    let rows = known.iter().flat_map(Known::rows);
    let rows = rows.map(|row| row.into_iter().skip(first).collect());
    columns(head.get(first..).unwrap_or_default(), rows.collect())
}

/// What CHECK found of every attachment.
pub fn checked(all: &[Checked]) -> String {
    let rows = all.iter().map(|checked| {
        let attachment = &checked.known.attachment;
        let found = match &checked.found {
            Ok(looked) => looked.to_string(),
            Err(error) => error.to_string(),
        };
        vec![
            attachment.network.clone(),
            attachment.container_id.clone(),
            attachment.ifname.clone(),
            found,
        ]
    });
    let head = ["NETWORK", "CONTAINER", "INTERFACE", "FOUND"];
    columns(&head, rows.collect())
}

fn interface(interface: &Interface) -> Vec<String> {
    vec![
        interface.name.clone(),
        interface.mac.clone(),
        interface.mtu.map(|mtu| mtu.to_string()).unwrap_or_default(),
        interface.sandbox.clone(),
    ]
}

fn route(route: &Route) -> Vec<String> {
    vec![route.dst.to_string(), text(route.gw)]
}

fn text(address: Option<IpAddr>) -> String {
    address.map(|a| a.to_string()).unwrap_or_default()
}

/// Rows below their head, as wide as they need to be, each on one line whatever it says; nothing without
/// rows.
fn columns(head: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let rows = std::iter::once(head).chain(rows);
    let line = |row: Vec<String>| row.iter().map(|cell| one_line(cell)).collect();
    let rows: Vec<Vec<String>> = rows.map(line).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use cni::{Dns, Error};

    use super::*;

    #[test]
    fn a_result() {
        let interface = |name: &str, mtu, sandbox: &str| Interface {
            name: name.into(),
            mac: "02:00:00:00:00:01".into(),
            mtu,
            sandbox: sandbox.into(),
            ..Interface::default()
        };
        let json = serde_json::json!({
            "ips": [
                {"address": "10.244.0.2/24", "gateway": "10.244.0.1", "interface": 1},
                {"address": "fd00::2/64", "interface": 9}
            ],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.0.1"}, {"dst": "10.244.0.0/16"}],
        });
        let mut value = AddResult::from_json(&json, cni::Version::NEWEST).unwrap();
        value.interfaces = vec![
            interface("cni0", None, ""),
            interface("eth0", Some(1500), "/run/netns/blue"),
        ];
        value.dns = Dns {
            nameservers: vec!["10.0.0.1".into(), "10.0.0.2".into()],
            ..Dns::default()
        };
        let expected = "\
INTERFACE  MAC                MTU   NAMESPACE
cni0       02:00:00:00:00:01
eth0       02:00:00:00:00:01  1500  /run/netns/blue

ADDRESS        GATEWAY     INTERFACE
10.244.0.2/24  10.244.0.1  eth0
fd00::2/64

ROUTE          VIA
0.0.0.0/0      10.244.0.1
10.244.0.0/16

DNS
nameservers  10.0.0.1 10.0.0.2
";
        assert_eq!(result(&value), expected);
        assert_eq!(result(&AddResult::default()), "");
    }

    #[test]
    fn a_row_is_a_line() {
        let told = "c/eth0".parse().unwrap();
        let mut known = Known::with_told("n", std::collections::BTreeMap::new(), &[told]);
        let states = known.states.into_iter().map(|(mut entry, state)| {
            entry.id = "c\nn  other\u{1b}[2J".to_owned();
            (entry, state)
        });
        known.states = states.collect();
        let expected = "\
CONTAINER             INTERFACE  STATE  WHY
c\\nn  other\\u{1b}[2J  eth0       valid  told
";
        assert_eq!(super::known(&[known], false), expected);
    }

    #[test]
    fn plugins() {
        let answers = vec![
            (
                "bridge".to_owned(),
                Ok(vec!["0.4.0".to_owned(), "1.0.0".to_owned()]),
            ),
            ("x".to_owned(), Err(Error::config("gone"))),
        ];
        let expected = "PLUGIN  VERSIONS\nbridge  0.4.0 1.0.0\nx       error: gone\n";
        assert_eq!(versions(&answers), expected);
    }
}
