//! Reading the rules.

use std::io;

use super::packet::Gate;
use super::{View, lines, native, ports};
use crate::deadline::Deadline;
use crate::iptables::{Tool, Variant};
use crate::nft::table::{TableName, proto_family};
use crate::nft::wire::Socket;
use crate::nft::{self, survey};
use crate::probe;
use crate::rule::{Family, Listing};

/// The tables of iptables that forwarded packets pass, and the one of host ports.
const TABLES: [&str; 5] = ["raw", "mangle", "filter", "security", "nat"];

/// The chain by which kube-proxy is known that uses iptables, and its table of nftables.
const SERVICES: &str = "KUBE-SERVICES";
const SERVICES_TABLE: &str = "kube-proxy";

/// A table of nf_tables that a program of iptables has printed.
type Printed = (Family, &'static str);

/// All that there is to read.
pub fn view() -> View {
    let mut view = View::default();
    view.read_legacy();
    match Socket::open().and_then(|mut socket| view.read_nftables(&mut socket)) {
        Err(error) if nft::is_without_nftables(&error) => {}
        Err(error) => view.unread.push(format!("rules of nftables: {error}")),
        Ok(()) => {}
    }
    view
}

impl View {
    fn read_legacy(&mut self) {
        for family in Family::ALL {
            match probe::legacy_tables(family) {
                Ok(there) => {
                    for table in TABLES
                        .into_iter()
                        .filter(|name| there.iter().any(|it| it == name))
                    {
                        let printed = self.print(family, Variant::Legacy, table);
                        self.unread.extend(printed.err());
                    }
                }
                Err(error) => {
                    let text = format!("{family} rules of iptables (legacy): {error}");
                    self.unread.push(text);
                }
            }
        }
    }

    fn read_nftables(&mut self, socket: &mut Socket) -> io::Result<()> {
        let mut printed: Vec<Printed> = Vec::new();
        for (family, name) in Family::ALL
            .into_iter()
            .flat_map(|family| TABLES.map(|name| (family, name)))
        {
            if !is_there(socket, family, name)? {
                continue;
            }
            match self.print(family, Variant::Nft, name) {
                Ok(()) => printed.push((family, name)),
                // What only `nft` has words for can be read all the same, but for host ports.
                Err(error) if name == "nat" => self.unread.push(error),
                Err(_) => {}
            }
        }
        let is_printed = |family: &str, table: &str, chain: &str| {
            let is = |(of, name): &Printed| nft_family(*of) == family && *name == table;
            matches!(chain, lines::EARLY | lines::ENTRANCE | lines::EXIT) && printed.iter().any(is)
        };
        let is_native = |family: &str, table: &str, chain: &str| !is_printed(family, table, chain);
        for hook in [native::PREROUTING, native::FORWARD] {
            self.gates.extend(native::gates(socket, hook, is_native)?);
        }
        let exits = native::gates(socket, native::POSTROUTING, is_native)?;
        self.exits.extend(exits.into_iter().map(Gate::of_unmarked));
        for family in Family::ALL {
            self.services |= is_there(socket, family, SERVICES_TABLE)?;
        }
        let survey = survey::survey(socket)?;
        self.ports.extend(survey.ports);
        self.comments = survey.comments;
        Ok(())
    }

    /// Has a table printed by a program of that variant.
    fn print(&mut self, family: Family, variant: Variant, table: &str) -> Result<(), String> {
        let failed =
            |why: &dyn std::fmt::Display| format!("{family} table {table} of iptables: {why}");
        let tool =
            Tool::of_variant(family, variant, Deadline::start()).map_err(|error| failed(&error))?;
        if !tool.is(variant) {
            return Err(failed(&format!("{} does not see it", tool.name())));
        }
        let text = tool.print(table).map_err(|error| failed(&error))?;
        self.add_table(family, &tool.file_name(), table, &text);
        Ok(())
    }

    /// Takes what `iptables -S` has printed.
    pub(super) fn add_table(&mut self, family: Family, program: &str, table: &str, text: &str) {
        if table != "nat" {
            for entrance in [lines::EARLY, lines::ENTRANCE] {
                let gate = lines::gate(family, program, (table, entrance), text);
                self.gates.extend(gate);
            }
            return;
        }
        let exit = lines::gate(family, program, (table, lines::EXIT), text);
        self.exits.extend(exit.map(Gate::of_unmarked));
        let listing = Listing::parse(text);
        self.services |= listing.has_chain(SERVICES);
        self.ports.extend(ports::of_iptables(&listing));
        self.nat.push((family, listing));
    }
}

fn is_there(socket: &mut Socket, family: Family, name: &'static str) -> io::Result<bool> {
    let table = TableName {
        family: proto_family(family),
        name,
    };
    Ok(socket.get(&table.get())?.is_some())
}

fn nft_family(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}
