//! Machines whose iptables is missing or broken.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders where tools are looked for beside `PATH`.
const ADMINISTRATION: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A command line that runs `program` where the folders of administration are empty, so that with
/// an empty `PATH` it finds no tool. The plugins that it starts see the same.
///
/// # Panics
/// This machine has no `unshare`, `mount` or `sh`.
pub fn without_tools(program: impl AsRef<Path>) -> Command {
    let hide = |folder: &str| {
        // A link leads to the other one, which is hidden already.
        format!("test -L {folder} || mount -t tmpfs tmpfs {folder}")
    };
    with_mounts(&ADMINISTRATION.map(hide), program)
}

/// A command line that runs `program`, and what that starts, with mounts of its own: those that the
/// shell lines make, each a command of its own.
///
/// # Panics
/// This machine has no `unshare`, `mount` or `sh`.
pub fn with_mounts(lines: &[String], program: impl AsRef<Path>) -> Command {
    let tool = |name| lab::find_tool(name).unwrap();
    // By its path: the lines may hide the folder it is in, and PATH may be empty.
    let mount = format!("{} ", tool("mount").display());
    let group = |line: &String| format!("{{ {}; }} && ", line.replace("mount ", &mount));
    let script = lines.iter().map(group).collect::<String>() + "exec \"$0\"";
    let mut command = Command::new(tool("unshare"));
    command
        .arg("--mount")
        .arg(tool("sh"))
        .args(["-c", &script])
        .arg(program.as_ref());
    command
}

/// Fills `folder` with the programs of the legacy variant under their plain names; a `PATH` that
/// begins with it. `None` where they are not there, or where the kernel does not tell of their
/// tables, as in a user namespace.
///
/// # Panics
/// The folder cannot be written.
pub fn legacy_path(folder: &Path) -> Option<OsString> {
    lab::find_tool("iptables-legacy")?;
    fs::read("/proc/net/ip_tables_names").ok()?;
    Some(lab::iptables_path(folder, "legacy").unwrap())
}

/// Fills `folder` with scripts in place of iptables and what belongs to it, of both families.
/// `script` may use `$real`, the program in whose place it is.
///
/// # Panics
/// This machine has no iptables, or the folder cannot be written.
pub fn replace_iptables(folder: &Path, script: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    for family in ["iptables", "ip6tables"] {
        for variant in ["", "-nft", "-legacy"] {
            for verb in ["", "-restore"] {
                let name = format!("{family}{variant}{verb}");
                if let Some(real) = lab::find_tool(&name) {
                    let text = format!("#!/bin/sh\nreal={}\n{script}\n", real.display());
                    // The name of the file behind a link tells the variant.
                    let file = real.canonicalize().unwrap();
                    let file = file.file_name().unwrap().to_string_lossy();
                    let file = folder.join(format!("{name}-of-{file}"));
                    write_script(&file, &text);
                    symlink(file, folder.join(name)).unwrap();
                }
            }
        }
    }
    folder.to_owned()
}

/// Writes a program.
///
/// # Panics
/// The file cannot be written.
pub fn write_script(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}

/// A command line that runs `program` where the folders of administration hold the programs of one
/// family of iptables alone: those whose names begin with `prefix`. `aside` is where they really are.
///
/// # Panics
/// This machine has no iptables, or no `unshare`, `mount` or `sh`.
pub fn with_one_family(prefix: &str, aside: &Path, program: impl AsRef<Path>) -> Command {
    fs::create_dir_all(aside).unwrap();
    let mut lines: Vec<_> = ADMINISTRATION
        .iter()
        .map(|folder| {
            let aside = aside.display();
            let hide = format!("mount --bind {folder} {aside} && mount -t tmpfs tmpfs {folder}");
            format!("test -L {folder} || {{ {hide}; }}")
        })
        .collect();
    for verb in ["", "-restore", "-save"] {
        let name = format!("{prefix}{verb}");
        let real = lab::find_tool(&name).unwrap().canonicalize().unwrap();
        let real = aside.join(real.file_name().unwrap());
        lines.push(format!("ln -s {} /usr/sbin/{name}", real.display()));
    }
    with_mounts(&lines, program)
}
