//! A small file system for one test.

use std::path::PathBuf;
use std::process::Command;

/// A file system in memory, unmounted when it is dropped.
#[derive(Debug)]
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// Makes the folder, and mounts a tmpfs there with these options of tmpfs(5).
    ///
    /// # Panics
    /// It cannot be made.
    pub fn at(folder: PathBuf, options: &str) -> Mounted {
        std::fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        assert!(mount.arg(&folder).status().unwrap().success());
        Mounted(folder)
    }

    /// Changes options.
    ///
    /// # Panics
    /// The kernel refuses.
    pub fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]);
        assert!(mount.arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        drop(status);
    }
}
