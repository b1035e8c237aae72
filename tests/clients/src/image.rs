//! Images without a registry.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Serves the page `served` by HTTP on port 80 of all addresses.
pub const SERVER: Image = Image {
    name: "localhost/server:1",
    command: &["/bin/httpd", "-f", "-p", "80", "-h", "/www"],
};

/// Does nothing: for a container that others look into, and for a pod's pause container.
pub const SLEEPER: Image = Image {
    name: "localhost/pause:1",
    command: &["/bin/sleep", "1000000"],
};

/// What an image is called and what it runs. All of them hold BusyBox and the page.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// Its full reference.
    pub name: &'static str,
    /// The command line of a container.
    pub command: &'static [&'static str],
}

impl Image {
    /// Writes it into the folder, once, as a tar of an OCI image layout (image-spec,
    /// image-layout.md), which `ctr images import` and `podman load` take.
    ///
    /// # Panics
    /// There is no `busybox` (Debian's busybox-static) or no `tar`, or the folder cannot be written.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let short = self.name.replace(['/', ':'], "-");
        let layout = folder.join(format!("{short}.layout"));
        if layout.exists() {
            return layout.with_extension("tar");
        }
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let layer = folder.join(format!("{short}.layer"));
        fill(&layer);
        let layer = Blob::add(&blobs, &fs::read(pack(&layer)).unwrap());
        let config = Blob::of_json(&blobs, &self.config(&layer));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")]
        });
        let manifest = Blob::of_json(&blobs, &manifest);
        let mut entry = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name
        });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        fs::write(layout.join("index.json"), index.to_string()).unwrap();
        let version = json!({ "imageLayoutVersion": "1.0.0" });
        fs::write(layout.join("oci-layout"), version.to_string()).unwrap();
        pack(&layout)
    }

    fn config(&self, layer: &Blob) -> Value {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Cmd": self.command, "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)] }
        })
    }
}

/// What a layout holds under its digest.
struct Blob {
    digest: String,
    size: usize,
}

impl Blob {
    fn add(folder: &Path, bytes: &[u8]) -> Blob {
        let digest = base16ct::lower::encode_string(&Sha256::digest(bytes));
        fs::write(folder.join(&digest), bytes).unwrap();
        Blob {
            digest,
            size: bytes.len(),
        }
    }

    fn of_json(folder: &Path, value: &Value) -> Blob {
        Blob::add(folder, value.to_string().as_bytes())
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.size
        })
    }
}

/// A root file system: BusyBox under all its names, and the page.
fn fill(root: &Path) {
    for folder in ["bin", "etc", "proc", "sys", "dev", "tmp", "www"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let busybox = lab::find_tool("busybox").unwrap();
    fs::copy(&busybox, root.join("bin/busybox")).unwrap();
    let names = Command::new(&busybox).arg("--list").output().unwrap();
    for name in String::from_utf8(names.stdout).unwrap().lines() {
        if name != "busybox" {
            symlink("busybox", root.join("bin").join(name)).unwrap();
        }
    }
    fs::write(root.join("www/index.html"), "served\n").unwrap();
}

/// A tar of what is in the folder, beside it.
fn pack(folder: &Path) -> PathBuf {
    let file = folder.with_extension("tar");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--create", "--file"])
        .arg(&file)
        .arg("--directory")
        .arg(folder)
        .arg(".");
    assert!(tar.status().unwrap().success(), "tar {}", folder.display());
    file
}
