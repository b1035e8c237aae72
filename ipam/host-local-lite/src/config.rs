//! The configuration: the keys of `ipam`, the three sources of requested addresses, `ipRanges`.

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{Config, Error, Request, Route, Version, code};
use ipnet::IpNet;
use serde::Deserialize;

use crate::range::{InvalidRange, Range, RangeSet, is_mapped};

const DEFAULT_DATA_DIR: &str = "/var/lib/cni/networks";

/// The longest name in a folder and the longest path, in bytes (linux/limits.h: `NAME_MAX`, and
/// `PATH_MAX` without the NUL byte at its end).
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4095;

/// A configuration that ADD can be served with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The pools, none empty, no two of them overlapping; one address is given from each.
    pub sets: Vec<RangeSet>,
    /// Where each set is written, as `ipam.ranges[0]`.
    origins: Vec<String>,
    /// Addresses asked for, each once.
    pub requested: Vec<IpAddr>,
    /// Handed on into the result.
    pub routes: Vec<Route>,
    /// A resolv.conf to hand on into the result.
    pub resolv_conf: Option<PathBuf>,
}

/// The keys of a configuration with host-local as its IPAM plugin, as they are written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(title = "host-local", extend("required" = ["ipam"]))
)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    /// What host-local itself reads. It needs `subnet` or `ranges`, unless the runtime gives ranges.
    #[cfg_attr(test, schemars(with = "Ipam"))]
    ipam: Option<Ipam>,
    /// What the runtime knows of the pod.
    runtime_config: RuntimeConfig,
    /// Another way to say what `runtimeConfig` says.
    args: Args,
}

/// `ipam`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
struct Ipam {
    /// The folder of reservations; each network has a folder in it.
    #[cfg_attr(test, schemars(extend("default" = DEFAULT_DATA_DIR)))]
    data_dir: String,
    /// A regular file of up to 1 MiB, as resolv.conf(5). Its nameservers, domain, search and options
    /// become the result's `dns`.
    resolv_conf: String,
    /// Routes of the pod, handed on into the result.
    #[cfg_attr(test, schemars(schema_with = "schema::routes"))]
    routes: Vec<Route>,
    /// Range sets, each a list of ranges: a pod gets one address of each set.
    #[cfg_attr(test, schemars(inner(length(min = 1))))]
    ranges: Vec<Vec<RangeKeys>>,
    // The oldest way to write one range: its keys in `ipam` itself.
    /// A network of at least four addresses, without host bits: the only range of a set that comes
    /// before all of `ranges`.
    subnet: Option<String>,
    /// With `subnet`: the first address to give. Without it, the subnet's second one.
    range_start: Option<String>,
    /// With `subnet`: the last address to give. Without it, the subnet's last but one; for IPv6 the
    /// last.
    range_end: Option<String>,
    /// With `subnet`: told with each address, and never given to a pod. Without it, the subnet's
    /// second one.
    gateway: Option<String>,
}

/// Consecutive addresses of one subnet.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("required" = ["subnet"]))
)]
#[serde(default, rename_all = "camelCase")]
struct RangeKeys {
    /// A network of at least four addresses, without host bits.
    #[cfg_attr(test, schemars(with = "String"))]
    subnet: Option<String>,
    /// The first address to give. Without it, the subnet's second one.
    range_start: Option<String>,
    /// The last address to give. Without it, the subnet's last but one; for IPv6 the last.
    range_end: Option<String>,
    /// Told with each address, and never given to a pod. Without it, the subnet's second one.
    gateway: Option<String>,
}

/// `runtimeConfig`, what the runtime knows of the pod.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
struct RuntimeConfig {
    /// Range sets before all others: the capability `ipRanges`.
    #[cfg_attr(test, schemars(inner(length(min = 1))))]
    ip_ranges: Vec<Vec<RangeKeys>>,
    /// The addresses that are wanted, with or without a prefix: the capability `ips`.
    ips: Vec<String>,
}

/// `args`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Args {
    /// What a runtime hands on from elsewhere.
    cni: CniArgs,
}

/// `args.cni`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct CniArgs {
    /// The addresses that are wanted, with or without a prefix.
    ips: Vec<String>,
}

/// Only what a DEL needs, whatever else has become of the configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoreKeys {
    ipam: StoreIpam,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoreIpam {
    data_dir: String,
}

/// The network's folder: `dataDir` and the network's name. Needs no valid configuration.
pub fn store_path(config: &Config) -> PathBuf {
    let keys: StoreKeys = config.read_tolerant();
    let data_dir = match keys.ipam.data_dir.as_str() {
        "" => DEFAULT_DATA_DIR,
        data_dir => data_dir,
    };
    Path::new(data_dir).join(&config.name)
}

/// Refuses a store's folder that no file system can have.
fn check_store_path(config: &Config) -> Result<(), Error> {
    let longest = |length: usize| format!("must have at most {length} bytes");
    let name = &config.name;
    if name.len() > LONGEST_NAME {
        let (length, allowed) = (name.len(), longest(LONGEST_NAME));
        let msg = format!("name: {name:?} names a folder and has {length} bytes: {allowed}");
        return Err(Error::config(msg));
    }
    let path = store_path(config);
    let path = path.as_os_str().as_encoded_bytes();
    let mut parts = path.split(|byte| *byte == b'/');
    let flaw = if path.contains(&0) {
        "must have no NUL byte".to_owned()
    } else if parts.any(|part| part.len() > LONGEST_NAME) {
        format!("each part {}", longest(LONGEST_NAME))
    } else if path.len() > LONGEST_PATH {
        format!("with the network's name it {}", longest(LONGEST_PATH))
    } else {
        return Ok(());
    };
    let keys: StoreKeys = config.read_tolerant();
    let msg = format!(
        "ipam.dataDir: {:?} is no folder: {flaw}",
        keys.ipam.data_dir
    );
    Err(Error::config(msg))
}

impl Settings {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Code 6 for a value of another type, 7 for one that is not allowed, 4 for `CNI_ARGS`.
    pub fn read(request: &Request) -> Result<Settings, Error> {
        let keys: Keys = request.config.read()?;
        let arg = request.env.arg("IP", &["IP"])?;
        let ipam = keys
            .ipam
            .ok_or_else(|| Error::config("IPAM config missing 'ipam' key"))?;
        let runtime = keys.runtime_config;
        let requested = requested(arg.as_deref(), &keys.args.cni.ips, &runtime.ips)?;
        let sets = sets(&ipam, &runtime.ip_ranges)?;
        check_between(&sets, request.config.cni_version)?;
        check_store_path(&request.config)?;
        check_routes(&ipam.routes)?;
        Ok(Settings {
            sets,
            origins: origins(&ipam, &runtime.ip_ranges),
            requested,
            routes: ipam.routes,
            resolv_conf: Some(PathBuf::from(ipam.resolv_conf))
                .filter(|path| !path.as_os_str().is_empty()),
        })
    }
}

impl Settings {
    /// The key that the set of that index is written in.
    pub fn origin(&self, set: usize) -> &str {
        self.origins.get(set).map_or("ipam", String::as_str)
    }
}

impl Ipam {
    /// The range whose keys are in `ipam` itself.
    fn single(&self) -> Option<Vec<RangeKeys>> {
        self.subnet.as_ref()?;
        Some(vec![RangeKeys {
            subnet: self.subnet.clone(),
            range_start: self.range_start.clone(),
            range_end: self.range_end.clone(),
            gateway: self.gateway.clone(),
        }])
    }
}

/// All range sets in their order, which numbers them: the runtime's, the one written in `ipam`
/// itself, those of `ranges`.
fn sets(ipam: &Ipam, runtime: &[Vec<RangeKeys>]) -> Result<Vec<RangeSet>, Error> {
    let single = ipam.single();
    let written = runtime.iter().chain(&single).chain(&ipam.ranges);
    let mut sets = Vec::new();
    for (index, set) in written.enumerate() {
        let ranges: Result<Vec<Range>, Error> = set.iter().map(|keys| range(index, keys)).collect();
        sets.push(RangeSet::new(ranges?).map_err(|error| invalid_set(index, &error))?);
    }
    if sets.is_empty() {
        let needed = match ipam.range_start {
            Some(_) => "\"rangeStart\" needs \"subnet\" beside it",
            None => "\"ipam\" needs \"ranges\" or \"subnet\"",
        };
        return Err(Error::config("no IP ranges specified").details(needed));
    }
    Ok(sets)
}

/// Refuses what would come to nothing in the pod, before an address is reserved for it.
fn check_routes(routes: &[Route]) -> Result<(), Error> {
    routes.iter().enumerate().try_for_each(|(index, route)| {
        let flawed = |flaw| Error::config(format!("ipam.routes[{index}].{flaw}"));
        route.validate().map_err(flawed)
    })
}

/// The keys of [`sets`], in the same order.
fn origins(ipam: &Ipam, runtime: &[Vec<RangeKeys>]) -> Vec<String> {
    let numbered = |key: &'static str, count| (0..count).map(move |i| format!("{key}[{i}]"));
    numbered("runtimeConfig.ipRanges", runtime.len())
        .chain(ipam.subnet.as_ref().map(|_| "ipam.subnet".to_owned()))
        .chain(numbered("ipam.ranges", ipam.ranges.len()))
        .collect()
}

/// What must hold between sets.
fn check_between(sets: &[RangeSet], version: Version) -> Result<(), Error> {
    let ipv4 = sets.iter().filter(|set| set.is_ipv4()).count();
    if version < Version::V0_3_0 && (ipv4 > 1 || sets.len() - ipv4 > 1) {
        return Err(Error::config(format!(
            "CNI version {version} does not support more than 1 address per family"
        )));
    }
    for (i, set) in sets.iter().enumerate() {
        let overlapping = sets
            .iter()
            .skip(i + 1)
            .position(|other| other.overlaps(set));
        if let Some(distance) = overlapping {
            return Err(Error::config(format!(
                "range set {i} overlaps with {}",
                i + 1 + distance
            )));
        }
    }
    Ok(())
}

fn range(set: usize, keys: &RangeKeys) -> Result<Range, Error> {
    let Some(subnet) = keys.subnet.as_deref() else {
        return Err(invalid_set(set, &InvalidRange::NoSubnet).details("a range needs \"subnet\""));
    };
    let subnet = parse_cidr("subnet", subnet)?;
    let start = optional_ip("rangeStart", keys.range_start.as_deref())?;
    let end = optional_ip("rangeEnd", keys.range_end.as_deref())?;
    let gateway = optional_ip("gateway", keys.gateway.as_deref())?;
    Range::new(subnet, start, end, gateway).map_err(|error| {
        let invalid = invalid_set(set, &error);
        match (start, end) {
            (Some(start), Some(end)) if start > end => invalid.details(format!(
                "\"rangeStart\" {start} is after \"rangeEnd\" {end}"
            )),
            _ => invalid,
        }
    })
}

fn invalid_set(index: usize, error: &InvalidRange) -> Error {
    Error::config(format!("invalid range set {index}: {error}"))
}

/// The addresses asked for by `CNI_ARGS`, `args.cni.ips` and `runtimeConfig.ips`, each once:
/// runtimes may send one by several of these ways.
fn requested(arg: Option<&str>, args: &[String], runtime: &[String]) -> Result<Vec<IpAddr>, Error> {
    let mut requested = Vec::new();
    if let Some(text) = arg.filter(|text| !text.is_empty()) {
        requested.push(requested_ip("IP", text).map_err(|error| Error {
            code: code::INVALID_ENVIRONMENT,
            msg: format!(
                "ARGS: error parsing value of pair \"IP={text}\": {}",
                error.msg
            ),
            details: format!("CNI_ARGS: {}", error.details),
        })?);
    }
    for (key, texts) in [("args.cni.ips", args), ("runtimeConfig.ips", runtime)] {
        for text in texts {
            let ip = requested_ip(key, text)?;
            if !requested.contains(&ip) {
                requested.push(ip);
            }
        }
    }
    Ok(requested)
}

/// An address with or without a prefix, which says nothing here.
fn requested_ip(key: &str, text: &str) -> Result<IpAddr, Error> {
    let ip = match text.contains('/') {
        true => parse_cidr(key, text)
            .map(|net| net.addr())
            .and_then(|ip| unmapped(key, text, ip)),
        false => parse_ip(key, text),
    };
    ip.map_err(|error| Error {
        msg: format!("invalid IP address {text}"),
        ..error
    })
}

fn parse_cidr(key: &str, text: &str) -> Result<IpNet, Error> {
    text.parse().map_err(|_| {
        Error::config(format!("invalid CIDR address: {text}")).details(format!(
            "{key:?} must be an address with a prefix, as 10.1.0.0/16"
        ))
    })
}

fn optional_ip(key: &str, text: Option<&str>) -> Result<Option<IpAddr>, Error> {
    let given = text.filter(|text| !text.is_empty());
    given.map(|text| parse_ip(key, text)).transpose()
}

fn parse_ip(key: &str, text: &str) -> Result<IpAddr, Error> {
    let ip = text.parse().map_err(|_| {
        Error::config(format!("invalid IP address: {text}"))
            .details(format!("{key:?} must be an address, as 10.1.0.5"))
    })?;
    unmapped(key, text, ip)
}

/// Refuses an IPv4 address in IPv6 clothes: it would have two texts, and two files.
fn unmapped(key: &str, text: &str, ip: IpAddr) -> Result<IpAddr, Error> {
    if is_mapped(ip) {
        return Err(Error::config(format!("invalid IP address: {text}"))
            .details(format!("{key:?} is an IPv4 address written as IPv6")));
    }
    Ok(ip)
}
