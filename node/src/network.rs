//! The networks of the conf folder, as far as they say what should be on the node.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::Version;
use cni::runtime::{NetworkList, keys_of};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Where host-local keeps reservations unless told otherwise.
const DEFAULT_DATA_DIR: &str = "/var/lib/cni/networks";
/// The bridge where a configuration names none.
const DEFAULT_BRIDGE: &str = "cni0";

/// A file of the conf folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Where it is.
    pub file: PathBuf,
    /// What it describes, or why it cannot be used.
    pub list: Result<NetworkList, cni::Error>,
}

/// A network that the conf folder describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// The file that describes it.
    pub file: PathBuf,
    /// The version that its plugins are spoken to in.
    pub version: Version,
    /// The types of its plugins and of their IPAM plugins.
    pub kinds: Vec<String>,
    /// What it makes of a bridge, if one of its plugins does.
    pub bridged: Option<Bridged>,
    /// Where its addresses come from, one of each for a pod.
    pub pools: Vec<Pool>,
    /// The folder of its reservations, where host-local keeps them.
    pub store: Option<PathBuf>,
    /// The reservations; `None` where they could not be read.
    pub reservations: Option<Vec<Reservation>>,
}

/// What a network makes of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridged {
    /// Name of the bridge.
    pub bridge: String,
    /// Whether the bridge has the gateways' addresses.
    pub is_gateway: bool,
    /// Whether ADD removes other addresses from the bridge.
    pub force_address: bool,
    /// Whether pods' links are left down on purpose.
    pub is_disabled: bool,
}

/// Ranges of which an attachment gets one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool(pub Vec<Range>);

/// Consecutive addresses of one subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The subnet.
    pub subnet: IpNet,
    /// The first address.
    pub start: IpAddr,
    /// The last.
    pub end: IpAddr,
    /// The one that is never given.
    pub gateway: IpAddr,
}

/// An address that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The address.
    pub address: IpAddr,
    /// Whose container.
    pub container_id: String,
    /// Which interface; the oldest format does not say.
    pub ifname: Option<String>,
    /// The file that says so.
    pub file: PathBuf,
}

/// What is known of a plugin's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The first file of its name in the folders of plugins.
    pub file: Option<PathBuf>,
    /// The versions that it speaks, or what is wrong with it.
    pub versions: Result<Vec<String>, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BridgeKeys {
    bridge: String,
    is_gateway: bool,
    is_default_gateway: bool,
    force_address: bool,
    disable_container_interface: bool,
    ipam: IpamKeys,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IpamKeys {
    #[serde(rename = "type")]
    kind: String,
    data_dir: String,
    ranges: Vec<Vec<RangeKeys>>,
    // The oldest way to write one range: its keys in `ipam` itself.
    subnet: Option<IpNet>,
    range_start: Option<IpAddr>,
    range_end: Option<IpAddr>,
    gateway: Option<IpAddr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RangeKeys {
    subnet: Option<IpNet>,
    range_start: Option<IpAddr>,
    range_end: Option<IpAddr>,
    gateway: Option<IpAddr>,
}

impl IpamKeys {
    fn oldest(&self) -> RangeKeys {
        RangeKeys {
            subnet: self.subnet,
            range_start: self.range_start,
            range_end: self.range_end,
            gateway: self.gateway,
        }
    }
}

impl Network {
    /// What a list describes; its reservations are not read yet.
    pub fn new(file: &Path, list: &NetworkList) -> Network {
        let mut network = Network {
            name: list.name.clone(),
            file: file.to_owned(),
            version: list.cni_version,
            kinds: list.kinds().into_iter().map(str::to_owned).collect(),
            bridged: None,
            pools: Vec::new(),
            store: None,
            reservations: None,
        };
        list.plugins.iter().for_each(|plugin| network.read(plugin));
        network
    }

    fn read(&mut self, plugin: &Map<String, Value>) {
        let keys: BridgeKeys = keys_of(plugin);
        let kind: KindKey = keys_of(plugin);
        if is(&kind.kind, "bridge") {
            let is_gateway = keys.is_gateway || keys.is_default_gateway;
            self.bridged = Some(Bridged {
                bridge: non_empty(keys.bridge).unwrap_or_else(|| DEFAULT_BRIDGE.to_owned()),
                is_gateway: is_gateway && !keys.ipam.kind.is_empty(),
                force_address: keys.force_address,
                is_disabled: keys.disable_container_interface,
            });
        }
        if is(&keys.ipam.kind, "host-local") {
            let oldest = Range::new(&keys.ipam.oldest()).map(|range| Pool(vec![range]));
            let sets = keys.ipam.ranges.iter();
            let sets = sets.map(|set| Pool(set.iter().filter_map(Range::new).collect()));
            let pools = sets.chain(oldest).filter(|pool| !pool.0.is_empty());
            self.pools.extend(pools);
            let folder = non_empty(keys.ipam.data_dir);
            let folder = folder.unwrap_or_else(|| DEFAULT_DATA_DIR.to_owned());
            self.store = Some(Path::new(&folder).join(&self.name));
        }
    }

    /// The subnets that its pods' addresses are of.
    pub fn subnets(&self) -> impl Iterator<Item = IpNet> {
        self.ranges().map(|range| range.subnet)
    }

    /// All its ranges.
    pub fn ranges(&self) -> impl Iterator<Item = &Range> {
        self.pools.iter().flat_map(|pool| &pool.0)
    }

    /// The addresses that its bridge should have, each once.
    pub fn gateways(&self) -> Vec<IpNet> {
        let gateways = self.ranges().filter_map(|range| {
            let inside = range.subnet.contains(&range.gateway);
            let net = IpNet::new(range.gateway, range.subnet.prefix_len()).ok();
            net.filter(|_| inside)
        });
        let mut once = BTreeSet::new();
        gateways.filter(|net| once.insert(*net)).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KindKey {
    #[serde(rename = "type")]
    kind: String,
}

/// Whether a type is that plugin's, of whichever make.
fn is(kind: &str, plugin: &str) -> bool {
    kind.strip_suffix("-lite").unwrap_or(kind) == plugin
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

impl Range {
    /// As host-local understands it: without the network address, and for IPv4 without the
    /// broadcast address, unless they are asked for.
    fn new(keys: &RangeKeys) -> Option<Range> {
        let subnet = keys.subnet?.trunc();
        let first = nth(subnet.network(), 1);
        let last = match subnet {
            IpNet::V4(net) => u32::from(net.broadcast())
                .checked_sub(1)
                .map(|last| IpAddr::V4(last.into()))?,
            IpNet::V6(net) => net.broadcast().into(),
        };
        Some(Range {
            subnet,
            start: keys.range_start.unwrap_or(first),
            end: keys.range_end.unwrap_or(last),
            gateway: keys.gateway.unwrap_or(first),
        })
    }

    /// Whether it gives that address.
    pub fn gives(&self, address: IpAddr) -> bool {
        self.holds(address) && address != self.gateway
    }

    fn holds(&self, address: IpAddr) -> bool {
        // IpAddr orders all of IPv4 before all of IPv6: the other family is never between.
        self.start <= address && address <= self.end
    }

    fn size(&self) -> u128 {
        let count = number(self.end).saturating_sub(number(self.start));
        let gateway = u128::from(self.holds(self.gateway));
        count.saturating_add(1).saturating_sub(gateway)
    }
}

impl Pool {
    /// How many addresses it has to give.
    pub fn size(&self) -> u128 {
        self.0.iter().map(Range::size).fold(0, u128::saturating_add)
    }

    /// How many of them are taken.
    pub fn taken(&self, reservations: &[Reservation]) -> u128 {
        let gives = |one: &&Reservation| self.0.iter().any(|range| range.gives(one.address));
        reservations.iter().filter(gives).count() as u128
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The address that far behind another; the last one where there is none.
fn nth(address: IpAddr, offset: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => u32::from(address)
            .checked_add(offset.into())
            .map_or(address, Into::into)
            .into(),
        IpAddr::V6(address) => u128::from(address)
            .checked_add(offset.into())
            .map_or(address, Into::into)
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        let list = NetworkList::parse(text.into()).unwrap();
        Network::new(Path::new("/x.conflist"), &list)
    }

    #[test]
    fn a_chain_of_two_families() {
        let network = network(
            r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [
                {"type": "bridge-lite", "bridge": "br9", "isDefaultGateway": true, "forceAddress": true,
                 "ipam": {"TYPE": "host-local-lite", "dataDir": "/data", "ranges": [
                    [{"subnet": "10.1.0.0/24"}, {"Subnet": "10.2.0.0/24", "rangeStart": "10.2.0.9",
                      "rangeEnd": "10.2.0.10", "gateway": "10.2.0.254"}],
                    [{"subnet": "fd00::/64"}]]}},
                {"type": "portmap-lite"}]}"#,
        );
        let bridged = network.bridged.clone().unwrap();
        assert_eq!(bridged.bridge, "br9");
        assert!(bridged.is_gateway && bridged.force_address && !bridged.is_disabled);
        assert_eq!(network.store.as_deref(), Some(Path::new("/data/n")));
        assert_eq!(
            network.kinds,
            ["bridge-lite", "host-local-lite", "portmap-lite"]
        );
        let sizes: Vec<_> = network.pools.iter().map(Pool::size).collect();
        assert_eq!(sizes, [253 + 2, (1 << 64) - 2]);
        let gateways: Vec<_> = network.gateways().iter().map(ToString::to_string).collect();
        assert_eq!(gateways, ["10.1.0.1/24", "10.2.0.254/24", "fd00::1/64"]);
    }

    #[test]
    fn the_oldest_format_and_defaults() {
        let network = network(
            r#"{"name": "n", "type": "bridge", "isGateway": true,
                "ipam": {"type": "host-local", "subnet": "10.1.0.0/29", "rangeStart": "10.1.0.3"}}"#,
        );
        assert_eq!(network.bridged.as_ref().unwrap().bridge, "cni0");
        let store = Path::new("/var/lib/cni/networks/n");
        assert_eq!(network.store.as_deref(), Some(store));
        assert_eq!(network.pools[0].size(), 4);
        assert_eq!(network.gateways().len(), 1);
        let reservation = |address: &str| Reservation {
            address: address.parse().unwrap(),
            container_id: "c".to_owned(),
            ifname: None,
            file: PathBuf::new(),
        };
        let taken = ["10.1.0.3", "10.1.0.6", "10.1.0.1", "10.1.0.7", "fd00::1"];
        assert_eq!(network.pools[0].taken(&taken.map(reservation)), 2);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let odd = network(
            r#"{"name": "n", "plugins": [{"type": "bridge", "isGateway": "yes",
                "ipam": {"type": "host-local", "ranges": [[{"subnet": "x"}], [], 5]}}]}"#,
        );
        assert_eq!(odd.pools, []);
        assert!(!odd.bridged.unwrap().is_gateway);
        let layer2 = network(r#"{"name": "n", "type": "bridge", "isGateway": true}"#);
        assert!(!layer2.bridged.unwrap().is_gateway);
        assert_eq!(layer2.store, None);
        let other = network(r#"{"name": "n", "type": "ptp", "ipam": {"type": "dhcp"}}"#);
        assert_eq!((other.bridged, other.store), (None, None));
    }
}
