//! Routes as the programs that set them want them.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::json;

use super::{Route, Routes, ToNode};
use crate::Fault;
use crate::yaml::scalar;

/// What the routes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines of `ip route replace`.
    Iproute2,
    /// A file of /etc/netplan, which netplan merges with the others.
    Netplan,
    /// A drop-in for the interface's file of systemd-networkd.
    Networkd,
    /// Lines of `nmcli`.
    NetworkManager,
    /// Lines of `gcloud compute routes create`: the cloud's own table, which is no node's, and so
    /// has every node's range.
    Gcloud,
    /// A list of objects.
    Json,
}

/// All nodes' routes, written for whoever is on one interface. Every node's file is the same but for
/// its own part, so that thousands of them are written without being made one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    head: String,
    body: String,
    /// Each node's part of the body, in their order.
    parts: Vec<Range<usize>>,
    /// What stands between two routes, and so before each of the body.
    separator: &'static str,
    tail: String,
    /// The file without any route.
    empty: String,
}

impl Written {
    /// Writes the routes for a node with that interface.
    ///
    /// # Errors
    /// The format needs the interface, and nobody told it.
    pub fn new(routes: &Routes, format: Format, device: Option<&str>) -> Result<Written, Fault> {
        let needs = matches!(format, Format::Netplan | Format::NetworkManager);
        if needs && device.is_none() {
            let reason = "missing: expected the nodes' interface, by which this format has its \
                          routes, as eth0 (--device)";
            return Err(Fault::new("device", reason));
        }
        let mut written = Written::frame(format, device.unwrap_or_default());
        for node in &routes.nodes {
            let start = written.body.len();
            for route in &node.routes {
                written.body.push_str(written.separator);
                // Writing to a text cannot fail.
                let _ = write_route(&mut written.body, routes, node, *route, format, device);
            }
            written.parts.push(start..written.body.len());
        }
        Ok(written)
    }

    /// What stands around the routes.
    fn frame(format: Format, device: &str) -> Written {
        let (head, separator, tail, empty) = match format {
            Format::Iproute2 | Format::Gcloud => (String::new(), "", String::new(), String::new()),
            Format::Netplan => {
                let name = scalar(device);
                let head =
                    format!("network:\n  version: 2\n  ethernets:\n    {name}:\n      routes:");
                let empty = format!("{head} []\n");
                (format!("{head}\n"), "", String::new(), empty)
            }
            Format::Networkd => (String::new(), "", String::new(), String::new()),
            Format::NetworkManager => (
                format!(
                    "connection=$(nmcli -g GENERAL.CONNECTION device show {device})\n\
                     : \"${{connection:?none of NetworkManager has {device}}}\"\n"
                ),
                "",
                format!("nmcli device reapply {device}\n"),
                String::new(),
            ),
            Format::Json => (
                "[\n".to_owned(),
                ",\n",
                "\n]\n".to_owned(),
                "[]\n".to_owned(),
            ),
        };
        Written {
            head,
            body: String::new(),
            parts: Vec::new(),
            separator,
            tail,
            empty,
        }
    }

    /// The file of the node with that place among all, whose own part is left out; the whole for a
    /// place that no node has. It comes in pieces, to be put one behind the other.
    pub fn without(&self, place: usize) -> [&str; 4] {
        let own = self.parts.get(place).cloned();
        let own = own.unwrap_or(self.body.len()..self.body.len());
        let before = self.body.get(..own.start).unwrap_or_default();
        let after = self.body.get(own.end..).unwrap_or_default();
        let begun = |text: &'_ str| !text.is_empty();
        let first = |text| str::strip_prefix(text, self.separator).unwrap_or(text);
        match (begun(before), begun(after)) {
            (false, false) => [&self.empty, "", "", ""],
            (true, _) => [&self.head, first(before), after, &self.tail],
            (false, true) => [&self.head, "", first(after), &self.tail],
        }
    }
}

fn write_route(
    text: &mut String,
    routes: &Routes,
    node: &ToNode,
    route: Route,
    format: Format,
    device: Option<&str>,
) -> std::fmt::Result {
    let Route { destination, via } = route;
    let ipv4 = via.is_ipv4();
    match format {
        Format::Iproute2 => {
            let family = if ipv4 { "" } else { "-6 " };
            write!(text, "ip {family}route replace {destination} via {via}")?;
            if let Some(device) = device {
                write!(text, " dev {device}")?;
            }
            text.push('\n');
        }
        Format::Netplan => {
            let (to, via) = (scalar(&destination.to_string()), scalar(&via.to_string()));
            writeln!(text, "      - to: {to}\n        via: {via}")?;
        }
        Format::Networkd => {
            writeln!(text, "[Route]\nDestination={destination}\nGateway={via}\n")?;
        }
        Format::NetworkManager => {
            let key = if ipv4 { "ipv4" } else { "ipv6" };
            writeln!(
                text,
                "nmcli connection modify \"$connection\" +{key}.routes \"{destination} {via}\""
            )?;
        }
        Format::Gcloud => {
            let range = destination.to_string().replace(['.', ':', '/'], "-");
            writeln!(
                text,
                "gcloud compute routes create kubernetes-route-{range} --network {} \
                 --next-hop-address {via} --destination-range {destination}",
                routes.cloud_network
            )?;
        }
        Format::Json => {
            let object = json!({
                "node": node.name, "destination": destination, "via": via, "device": device,
            });
            write!(text, "  {object}")?;
        }
    }
    Ok(())
}
