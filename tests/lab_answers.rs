//! The first of the worked examples, by `conf/lab/answers.sh`; and the same of a random cluster, which
//! is computed here by other arithmetic.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, which stand outside of them"
)]

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::{binary_folder, plugin_folder};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/lab")
}

/// The files that the script writes.
fn answers(arguments: &[&Path], variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let out = tempfile::tempdir().unwrap();
    let bin = out.path().join("bin");
    plugin_folder(&bin);
    let into = out.path().join("answers");
    let run = Command::new("sh")
        .arg(folder().join("answers.sh"))
        .arg(&into)
        .args(arguments)
        .env(
            "PODNET",
            binary_folder().canonicalize().unwrap().join("podnet"),
        )
        .env("CNI_PATH", &bin)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    read(&into)
}

fn read(folder: &Path) -> BTreeMap<String, String> {
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(entry).collect()
}

/// `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn the_answers_are_those_that_are_shipped() {
    let written = answers(&[], &[]);
    let golden = folder().join("answers");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for (name, text) in &written {
            fs::write(golden.join(name), text).unwrap();
        }
    }
    let names: Vec<&str> = written.keys().map(String::as_str).collect();
    let expected = [
        "01-podcidr.txt",
        "02-capacity.txt",
        "04-chain.txt",
        "05-notready.txt",
        "06-node1.conflist",
        "06-node2.conflist",
        "07-overlap.txt",
        "08-report.md",
        "10-k8nd.conflist",
        "edge-node.yaml",
        "shaped.yaml",
    ];
    assert_eq!(names, expected);
    for (name, text) in read(&golden) {
        assert_eq!(written[&name], text, "{name}");
    }
}

/// A network, as its first and last address.
#[derive(Debug, Clone, Copy)]
struct Block {
    first: u64,
    last: u64,
    prefix: u32,
}

impl Block {
    /// Somewhere in the first three quarters of 10.0.0.0/8.
    fn random(rng: &mut fastrand::Rng, prefixes: std::ops::RangeInclusive<u32>) -> Block {
        let prefix = rng.u32(prefixes);
        let size = 1_u64 << (32 - prefix);
        let first = (10 << 24) + rng.u64(0..(3 << 22)) / size * size;
        Block {
            first,
            last: first + size - 1,
            prefix,
        }
    }

    fn text(self) -> String {
        format!("{}/{}", address(self.first), self.prefix)
    }

    fn overlaps(self, other: Block) -> bool {
        (self.first..=self.last).contains(&other.first)
            || (other.first..=other.last).contains(&self.first)
    }
}

fn address(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(number as u32)
}

/// A cluster, and what follows from it.
struct Random {
    pods: Block,
    node_prefix: u32,
    limit: u64,
    /// The numbers in the nodes' names, in the order of the names.
    numbers: Vec<u32>,
}

impl Random {
    fn new(rng: &mut fastrand::Rng) -> Random {
        let pods = Block::random(rng, 12..=20);
        Random {
            node_prefix: pods.prefix + rng.u32(4..=8),
            limit: rng.u64(1..=300),
            numbers: (0..rng.u32(3..=9))
                .map(|place| place * 7 + rng.u32(0..7))
                .collect(),
            pods,
        }
    }

    /// As a cluster file, with the nodes in any order.
    fn file(&self, rng: &mut fastrand::Rng, edge: &str) -> String {
        let mut numbers = self.numbers.clone();
        rng.shuffle(&mut numbers);
        let node =
            |number: &u32| format!("- {{name: n-{number}, address: 192.0.2.{}}}\n", number + 1);
        let nodes: String = numbers.iter().map(node).collect();
        format!(
            "podSubnet: {}\nnodePrefix: {}\nmaxPods: {}\nnetwork: of-{edge}\nnodes:\n{nodes}keptBack: \
             [{{name: {edge}, taint: t/x}}]\n",
            self.pods.text(),
            self.node_prefix,
            self.limit
        )
    }

    fn size(&self) -> u64 {
        1 << (32 - self.node_prefix)
    }

    fn subnets(&self) -> u64 {
        (self.pods.last - self.pods.first + 1) / self.size()
    }

    /// The range of the node with that place, and its gateway.
    fn range(&self, place: usize) -> (String, String) {
        let first = self.pods.first + place as u64 * self.size();
        let range = format!("{}/{}", address(first), self.node_prefix);
        (range, address(first + 1).to_string())
    }

    fn podcidrs(&self) -> String {
        let line = |(place, number)| format!("n-{number} {}\n", self.range(place).0);
        self.numbers.iter().enumerate().map(line).collect()
    }

    fn capacity(&self) -> String {
        let (size, limit) = (self.size(), self.limit);
        let binding = if limit < size - 1 { "node" } else { "subnet" };
        format!(
            "subnets={}\naddresses_per_subnet={size}\nusable_per_subnet={}\nnode_pod_limit={limit}\n\
             binding_limit={binding}\n",
            self.subnets(),
            size - 2
        )
    }

    fn report(&self, edge: &str) -> String {
        format!(
            "cluster_pod_cidr={}\nper_node_prefix={}\nnodes_addressable={}\nnotready_node={edge}\n\
             chained_plugins=portmap,bandwidth\n\n- ",
            self.pods.text(),
            self.node_prefix,
            self.subnets()
        )
    }
}

#[test]
fn a_random_cluster() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let random = Random::new(&mut rng);
        let edge = format!("late-{seed}");
        let cluster = random.file(&mut rng, &edge);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &cluster).unwrap();
        let (cases, verdicts) = cases(&mut rng);
        let variables = [("CASES", cases.as_str()), ("EDGE", &edge), ("TAINT", "t/x")];
        let written = answers(&[file.path()], &variables);

        assert_eq!(written["01-podcidr.txt"], random.podcidrs(), "{cluster}");
        assert_eq!(written["02-capacity.txt"], random.capacity(), "{cluster}");
        let lists = ["10-k8nd.conflist", "06-node1.conflist", "06-node2.conflist"];
        for (place, file) in lists.into_iter().enumerate() {
            let list: Value = serde_json::from_str(&written[file]).unwrap();
            let (range, gateway) = random.range(place);
            assert_eq!(list["name"], format!("of-{edge}"));
            let ipam = &list["plugins"][0]["ipam"];
            assert_eq!(ipam["subnet"], range, "{cluster}");
            assert_eq!(ipam["gateway"], gateway, "{cluster}");
            assert_eq!(ipam["routes"][1]["dst"], random.pods.text(), "{cluster}");
        }
        assert_eq!(written["07-overlap.txt"], verdicts, "{cases}");
        let notready = format!("node={edge}\ncustom_taint=t/x\n");
        assert!(
            written["05-notready.txt"].starts_with(&notready),
            "{notready}"
        );
        let report = &written["08-report.md"];
        assert!(report.starts_with(&random.report(&edge)), "{report}");
        assert!(report.lines().filter(|line| line.starts_with("- ")).count() >= 4);
    }
}

/// Cases, and what is to be said of them.
fn cases(rng: &mut fastrand::Rng) -> (String, String) {
    let mut cases = String::new();
    let mut verdicts = String::new();
    for case in 0..8 {
        let [a, b, c] = [(); 3].map(|()| Block::random(rng, 9..=16));
        let ok = !(a.overlaps(b) || a.overlaps(c) || b.overlaps(c));
        cases.push_str(&format!("c{case}={},{},{} ", a.text(), b.text(), c.text()));
        verdicts.push_str(&format!("c{case}={}\n", if ok { "ok" } else { "overlap" }));
    }
    verdicts.push_str("rule=pod,service,node\n");
    (cases, verdicts)
}
