//! One attachment: what `add`, `check` and `del` are about.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use cni::runtime::{RuntimeConf, parse_args};
use cni::{AddResult, Version};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::every::{self, Every};
use crate::failure::Failure;
use crate::network::Places;
use crate::port::Port;
use crate::rate::{Rate, bandwidth};

/// One attachment.
#[derive(Debug, Args)]
pub struct Target {
    /// Name of the network, as its configuration says
    network: String,
    /// Path of the network namespace, as /run/netns/blue
    netns: PathBuf,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    asked: Asked,
}

/// One attachment, or all.
#[derive(Debug, Args)]
pub struct Targets {
    /// Name of the network, as its configuration says
    #[arg(required_unless_present = "all")]
    network: Option<String>,
    /// Path of the network namespace, as /run/netns/blue
    #[arg(required_unless_present = "all")]
    netns: Option<PathBuf>,
    /// Every attachment in the cache, of NETWORK or of every network, each with the configuration
    /// that it was made with
    #[arg(
        long,
        conflicts_with_all = ["netns", "conf", "container_id", "ports", "ingress", "egress"]
    )]
    all: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    asked: Asked,
}

/// What is asked for beside the network and the namespace.
#[derive(Debug, Args)]
pub struct Asked {
    /// Id of the container [default: made from NETNS, the same as cnitool's]
    #[arg(long, value_name = "ID")]
    container_id: Option<String>,
    /// The interface in the namespace
    #[arg(long, value_name = "NAME", env = "CNI_IFNAME", default_value = "eth0")]
    ifname: String,
    /// A host port: `[HOSTIP:]HOSTPORT:CONTAINERPORT[/PROTOCOL]`, an IPv6 address in brackets; may
    /// be repeated
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<Port>,
    /// What may reach the namespace, in bits per second, as 500k, 10M or 1G; 0.1 s of it (at
    /// least 128 KiB) may come at once
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    ingress: Option<Rate>,
    /// The same for what may leave it
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    egress: Option<Rate>,
    /// What the capabilities are given, as JSON; options win over it
    #[arg(long, value_name = "JSON", env = "CAP_ARGS")]
    cap_args: Option<String>,
    /// Arguments for the plugins, as K=V;K2=V2
    #[arg(long, value_name = "ARGS", env = "CNI_ARGS")]
    args: Option<String>,
}

/// Attaches; the result, and the version it is to be printed in.
///
/// # Errors
/// The chain's.
pub fn add(target: &Target) -> Result<(Version, AddResult), Failure> {
    let (runtime, list) = target.places.open(&target.network)?;
    let result = runtime.add(&list, &conf(&target.netns, &target.asked)?)?;
    Ok((list.cni_version, result))
}

/// Compares; what was found of each where all are meant.
///
/// # Errors
/// The chain's, where one is meant.
pub fn check(targets: &Targets) -> Result<Option<Every>, Failure> {
    let (Some(network), Some(netns)) = (&targets.network, &targets.netns) else {
        return every::check(&targets.places, targets.network.as_deref()).map(Some);
    };
    let (runtime, list) = targets.places.open(network)?;
    runtime.check(&list, &conf(netns, &targets.asked)?)?;
    Ok(None)
}

/// Detaches; also where the network's configuration has gone since, by the one in the cache.
///
/// # Errors
/// The chain's.
pub fn del(target: &Target) -> Result<(), Failure> {
    let conf = conf(&target.netns, &target.asked)?;
    let (runtime, list) = target.places.open(&target.network).or_else(|lost| {
        let runtime = target.places.runtime();
        let cached = every::made_with(&runtime, &target.network, &conf);
        cached.map(|list| (runtime, list)).ok_or(lost)
    })?;
    Ok(runtime.del(&list, &conf)?)
}

fn conf(netns: &Path, asked: &Asked) -> Result<RuntimeConf, Failure> {
    let netns = std::path::absolute(netns)
        .map(|path| cleaned(&path))
        .map_err(|error| Failure::Usage(format!("{}: {error}", netns.display())))?;
    let container_id = asked.container_id.clone();
    let container_id = container_id.unwrap_or_else(|| id_of(&netns));
    // The plugins would refuse them, but none is to be called for that.
    if !cni::is_identifier(&container_id) {
        return Err(Failure::Usage(format!(
            "--container-id {container_id:?}: expected a letter or digit, then letters, digits, \
             `_`, `.` and `-`"
        )));
    }
    if !net::link::is_name(&asked.ifname) {
        return Err(Failure::Usage(format!(
            "--ifname (CNI_IFNAME) {:?} cannot be an interface's name",
            asked.ifname
        )));
    }
    Ok(RuntimeConf {
        container_id,
        netns: Some(netns),
        ifname: asked.ifname.clone(),
        args: parse_args(asked.args.as_deref().unwrap_or_default()).map_err(Failure::usage)?,
        capability_args: capability_args(asked).map_err(Failure::Usage)?,
    })
}

fn capability_args(asked: &Asked) -> Result<Map<String, Value>, String> {
    let mut args = match asked.cap_args.as_deref() {
        None | Some("") => Map::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("CAP_ARGS is no JSON object: {error}"))?,
    };
    if !asked.ports.is_empty() {
        args.insert("portMappings".into(), json!(asked.ports));
    }
    if let Some(rates) = bandwidth(asked.ingress, asked.egress) {
        args.insert("bandwidth".into(), rates);
    }
    Ok(args)
}

/// The id that cnitool gives a namespace, so that each finds what the other made.
fn id_of(netns: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hash = Sha512::digest(netns.as_os_str().as_bytes());
    format!("cnitool-{:.20}", base16ct::lower::encode_string(&hash))
}

/// An absolute path without `.`, `..` and double slashes, by its text alone.
fn cleaned(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::CurDir => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        target: Target,
    }

    /// What the options ask for. They are given in full, so that no variable of the test's own
    /// environment counts.
    fn asked(options: &[&str]) -> Result<RuntimeConf, Failure> {
        let words = ["x", "n", "/run/netns/blue", "--ifname", "eth1"];
        let mut words = words.to_vec();
        for (option, value) in [("--cap-args", ""), ("--args", "")] {
            if !options.contains(&option) {
                words.extend([option, value]);
            }
        }
        words.extend(options);
        let target = Line::try_parse_from(words).unwrap().target;
        conf(&target.netns, &target.asked)
    }

    #[test]
    fn plain() {
        let expected = RuntimeConf {
            container_id: "cnitool-df26705e2e4ffd095eb1".into(),
            netns: Some("/run/netns/blue".into()),
            ifname: "eth1".into(),
            args: Vec::new(),
            capability_args: Map::new(),
        };
        assert_eq!(asked(&[]).unwrap(), expected);
    }

    #[test]
    fn options_win_over_the_environment() {
        let conf = asked(&[
            "--container-id",
            "c",
            "--args",
            "IgnoreUnknown=1",
            "--cap-args",
            r#"{"portMappings": [], "mac": "x"}"#,
            "--port",
            "8080:80/tcp",
            "--egress",
            "1M",
        ])
        .unwrap();
        assert_eq!(conf.container_id, "c");
        assert_eq!(conf.args, [("IgnoreUnknown".to_owned(), "1".to_owned())]);
        assert_eq!(
            Value::Object(conf.capability_args),
            json!({
                "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
                "mac": "x",
                "bandwidth": {"egressRate": 1_000_000, "egressBurst": 1_048_576},
            })
        );
    }

    #[test]
    fn refusals() {
        for options in [["--cap-args", "[]"], ["--cap-args", "{"], ["--args", "A"]] {
            let failure = asked(&options).unwrap_err();
            assert!(matches!(failure, Failure::Usage(_)), "{failure:?}");
        }
    }

    #[test]
    fn paths() {
        for (path, expected) in [
            ("/run/netns/blue", "/run/netns/blue"),
            ("/run//netns/./blue/", "/run/netns/blue"),
            ("/run/x/../netns/blue", "/run/netns/blue"),
            ("/../run", "/run"),
        ] {
            assert_eq!(cleaned(Path::new(path)), Path::new(expected));
        }
    }
}
