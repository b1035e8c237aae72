//! A network with a store of its own, and the calls of the plugin for it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A network of the test's own, in a folder of its own.
pub struct Network {
    pub folder: tempfile::TempDir,
    pub ipam: Value,
    pub version: &'static str,
}

impl Network {
    /// With these range sets.
    pub fn new(ranges: Value) -> Network {
        Network {
            folder: tempfile::tempdir().unwrap(),
            ipam: json!({ "type": "host-local", "ranges": ranges }),
            version: "1.0.0",
        }
    }

    /// Its store's folder.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("net")
    }

    /// Its configuration, with more keys.
    pub fn config(&self, more: &Value) -> Value {
        let mut config = json!({
            "cniVersion": self.version, "name": "net", "type": "bridge", "ipam": self.ipam,
        });
        config["ipam"]["dataDir"] = json!(self.folder.path());
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    }

    /// One call.
    pub fn call(&self, command: &str, id: &str) -> Answer {
        self.call_with(command, id, "", &json!({}))
    }

    /// One call with `CNI_ARGS`, and more keys.
    pub fn call_with(&self, command: &str, id: &str, args: &str, more: &Value) -> Answer {
        run(command, id, args, &self.config(more).to_string())
    }

    /// The reservations: address and content.
    pub fn reservations(&self) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = fs::read_dir(self.store())
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
            .filter(|(name, path)| name.parse::<std::net::IpAddr>().is_ok() && path.is_file())
            .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
            .collect();
        found.sort();
        found
    }
}

#[derive(Debug)]
pub struct Answer {
    pub success: bool,
    pub stdout: Value,
}

impl Answer {
    pub fn of(output: &Output) -> Answer {
        let stdout = match output.stdout.as_slice() {
            b"" => Value::Null,
            text => serde_json::from_slice(text).unwrap(),
        };
        Answer {
            success: output.status.success(),
            stdout,
        }
    }

    #[track_caller]
    pub fn addresses(&self) -> Vec<&str> {
        assert!(self.success, "{self:?}");
        let ips = self.stdout["ips"].as_array().unwrap();
        ips.iter()
            .map(|ip| ip["address"].as_str().unwrap())
            .collect()
    }

    #[track_caller]
    pub fn refused(&self, code: u32, msg: &str) {
        assert!(!self.success, "{self:?}");
        assert_eq!(
            (&self.stdout["code"], &self.stdout["msg"]),
            (&json!(code), &json!(msg))
        );
    }

    #[track_caller]
    pub fn silent(&self) {
        assert!(self.success && self.stdout.is_null(), "{self:?}");
    }
}

pub fn spawn(command: &str, id: &str, args: &str, config: &str) -> std::process::Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_host-local-lite"))
        .env_clear()
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", id)
        .env("CNI_IFNAME", "eth0")
        .env(
            "CNI_NETNS",
            if command == "DEL" {
                ""
            } else {
                "/run/netns/none"
            },
        )
        .env("CNI_ARGS", args)
        .env("CNI_PATH", "/opt/cni/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(config.as_bytes())
        .unwrap();
    child
}

pub fn run(command: &str, id: &str, args: &str, config: &str) -> Answer {
    Answer::of(&spawn(command, id, args, config).wait_with_output().unwrap())
}

pub fn write(folder: &Path, name: &str, content: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), content).unwrap();
}
