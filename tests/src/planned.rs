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
