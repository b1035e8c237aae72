//! `podnet` where it needs neither privileges nor a network, and on a node.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cni::runtime::NetworkList;

use crate::{Answer, Node, binary_folder};

impl Node {
    /// Runs `podnet` on the node, with its folders of plugins and of configurations in the
    /// environment.
    #[track_caller]
    pub fn podnet(&self, words: &[&str]) -> Answer {
        let mut podnet = Command::new(binary_folder().canonicalize().unwrap().join("podnet"));
        podnet
            .args(words)
            .env_clear()
            .env("PATH", &self.path)
            .env("CNI_PATH", &self.bin)
            .env("NETCONFPATH", self.configurations());
        self.namespace.output(&mut podnet, b"").unwrap().into()
    }

    /// The folder of configurations.
    pub fn configurations(&self) -> PathBuf {
        self.folder().join("net.d")
    }

    /// Puts a conflist into the folder of configurations.
    #[track_caller]
    pub fn configure(&self, list: &NetworkList) {
        std::fs::create_dir_all(self.configurations()).unwrap();
        let file = self
            .configurations()
            .join(format!("10-{}.conflist", list.name));
        std::fs::write(file, &list.raw).unwrap();
    }
}

/// Runs `podnet` in a folder, with `input` on its standard input.
///
/// # Panics
/// It cannot be started.
#[track_caller]
pub fn podnet(folder: &Path, words: &[&str], input: &str) -> Answer {
    let mut process = Command::new(binary_folder().canonicalize().unwrap().join("podnet"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = process.stdin.take().unwrap();
    // Who needs no input may be gone before all of it is written.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    process.wait_with_output().unwrap().into()
}

/// A folder with a cluster file.
#[derive(Debug)]
pub struct Desk(tempfile::TempDir);

impl Desk {
    /// With that cluster file, `cluster.yaml`.
    pub fn new(cluster: &str) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cluster.yaml"), cluster).unwrap();
        Desk(folder)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// What a command answers, called there.
    pub fn run(&self, line: &str) -> Answer {
        self.run_with(line, "")
    }

    /// What it answers to that standard input.
    pub fn run_with(&self, line: &str, input: &str) -> Answer {
        let words: Vec<&str> = line.split_whitespace().collect();
        podnet(self.0.path(), &words, input)
    }

    /// What a command prints that finds nothing.
    #[track_caller]
    pub fn says(&self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(
            (answer.status, answer.stderr.as_str()),
            (0, ""),
            "{line}: {answer:?}"
        );
        answer.stdout
    }

    /// That a command refuses its input, and says why.
    #[track_caller]
    pub fn refuses(&self, line: &str, said: &str) {
        let answer = self.run(line);
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (2, ""),
            "{line}: {answer:?}"
        );
        let told = answer.stderr.strip_prefix("podnet: ").unwrap_or_default();
        assert!(told.starts_with(said), "{line}: {}", answer.stderr);
    }
}
