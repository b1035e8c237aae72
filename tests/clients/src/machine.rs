//! Namespaces that make a node a machine of its own to whatever runs on it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::Namespace;

/// Where control groups are: of the second version, or one folder for each controller.
const GROUPS: &str = "/sys/fs/cgroup";

/// The first process of the machine. It ends when its standard input does, which is when the test
/// ends, however it ends; and with it the kernel ends all others and undoes their mounts.
/// `wait` collects the orphans. What a runtime there takes for the roots of the control groups are
/// groups of the machine's, so that two can have a group of one name, and all are known by theirs.
const INIT: &str = r#"
exec 3<&0
read -r pid _ </proc/self/stat
mount -t proc proc /proc
name=$1 groups=$2
shift 2
# Only what is not covered by another mount is understood by every runtime.
own() {
    mkdir "$1/$name"
    for file in cpuset.cpus cpuset.mems; do
        test ! -e "$1/$file" || cat "$1/$file" >"$1/$name/$file"
    done
    mkdir -p "$2"
    mount --bind "$1/$name" "$2"
}
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    own /sys/fs/cgroup "$groups"
else
    mkdir "$groups"
    mount -t tmpfs tmpfs "$groups"
    for group in $(ls /sys/fs/cgroup); do
        if [ -L "/sys/fs/cgroup/$group" ]; then
            cp -d "/sys/fs/cgroup/$group" "$groups"
        elif [ -e "/sys/fs/cgroup/$group/cgroup.procs" ]; then
            own "/sys/fs/cgroup/$group" "$groups/$group"
        fi
    done
fi
umount -R /sys/fs/cgroup
mount --move "$groups" /sys/fs/cgroup
while [ $# -gt 0 ]; do
    mkdir -p "$1" "$2"
    mount --bind "$1" "$2"
    shift 2
done
mkdir -p /run/netns /run/lock
echo "$pid"
cat <&3 >/dev/null &
wait
"#;

/// A mount and a process namespace beside a node's network namespace. Some folders there are the
/// test's own, so that runtimes which have one place for their things can run side by side.
#[derive(Debug)]
pub struct Machine {
    init: Child,
    pid: u32,
    name: String,
}

impl Machine {
    /// Starts it in the node's network namespace. `own` are names below the test's folder, and the
    /// places where the machine has these folders. Its control groups are named after the folder.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn new(node: &Namespace, folder: &Path, own: &[(&str, &str)]) -> Machine {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let log = folder.join("init.log");
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-ec", INIT, "init", &name])
            .arg(folder.join("groups"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap());
        for (own, place) in own {
            unshare.arg(folder.join(own)).arg(place);
        }
        let mut init = node.spawn(&mut unshare).unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(init.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        let Ok(pid) = said.trim().parse() else {
            panic!("no machine: {}", fs::read_to_string(log).unwrap());
        };
        Machine { init, pid, name }
    }

    /// A command line that runs the program in the machine's mount and process namespaces.
    pub fn command(&self, program: &str) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter
            .args(["--target", &self.pid.to_string()])
            .args(["--mount", "--pid", "--net", "--wd=/", program]);
        nsenter
    }

    /// Where a file of the machine is found from outside.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        let file = file.as_ref();
        Path::new("/proc")
            .join(self.pid.to_string())
            .join("root")
            .join(file.strip_prefix("/").unwrap_or(file))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.init.stdin.take());
        let _ = self.init.wait();
        let groups = fs::read_dir(GROUPS).into_iter().flatten().flatten();
        let roots = groups.map(|group| group.path());
        for root in roots.chain([GROUPS.into()]) {
            remove_groups(&root.join(&self.name));
        }
    }
}

/// Removes a control group and those below it, none of which has a process any more.
fn remove_groups(group: &Path) {
    for below in fs::read_dir(group).into_iter().flatten().flatten() {
        if below.path().is_dir() {
            remove_groups(&below.path());
        }
    }
    let _ = fs::remove_dir(group);
}
