//! `podnet install` and `podnet uninstall`: the plugins on this node, and away again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cni::one_line;
use install::{Done, Error, Item, Put, Removed, Undone};
use node::{USUAL_CONF, USUAL_PLUGINS};
use serde_json::{Value, json};

use crate::failure::{Failure, complain};
use crate::output::{Answer, Output};
use crate::reading;

const INSTALL_EXAMPLES: &str = "\
Examples:
  sudo podnet install                                     # beside the plugins that are there
  sudo podnet install --standard-names --conf 10-k8nd.conflist
  sudo podnet install --from target/bin --bin-dir /usr/lib/cni --output json

";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  sudo podnet uninstall
  sudo podnet uninstall --bin-dir /usr/lib/cni --conf-dir /etc/cni/net.d

";

const INSTALL_STATUS: &str = "Exit status: 0 done; 1 it could not be done, and nothing has changed; \
2 wrong options or files.";

const UNINSTALL_STATUS: &str = "Exit status: 0 done; 1 something could not be taken back, and all \
else was; 2 wrong options.";

/// The folders of a node.
#[derive(Debug, Args)]
struct Folders {
    /// The folder of plugins
    #[arg(long, value_name = "DIR", default_value = USUAL_PLUGINS)]
    bin_dir: PathBuf,
    /// The folder of configurations
    #[arg(long, value_name = "DIR", default_value = USUAL_CONF)]
    conf_dir: PathBuf,
}

/// Put the plugins, podnet and a configuration in their places: all of them or nothing
///
/// Each file is written beside its place and renamed: running pods are not disturbed, and nobody runs
/// half a program. What another has put under a name is kept beside it as NAME.bak.
#[derive(Debug, Args)]
#[command(after_help = [INSTALL_EXAMPLES, INSTALL_STATUS].concat())]
pub struct Install {
    /// Also put each plugin under the name that existing configurations use: bridge, portmap,
    /// bandwidth, loopback, host-local
    #[arg(long)]
    standard_names: bool,
    #[command(flatten)]
    folders: Folders,
    /// A network's configuration, which is put into the folder of configurations under its own name
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Where the programs are taken from [default: the folder that podnet is run from, or where no
    /// plugins are in it /opt/cni/bin]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Leave the plugins under their own names to the package that has put them there, and make those
    /// under standard names that are as install has put them there copies of them: for packages
    #[arg(long, hide = true, conflicts_with_all = ["standard_names", "conf", "from"])]
    hand_over: bool,
    #[command(flatten)]
    output: Output,
}

/// Take back what install has put in place, and bring back what it has kept
///
/// What was changed since stays, and so does what was kept of it.
#[derive(Debug, Args)]
#[command(after_help = [UNINSTALL_EXAMPLES, UNINSTALL_STATUS].concat())]
pub struct Uninstall {
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    output: Output,
}

/// Installs, and says what became of each file.
///
/// # Errors
/// Something is not to be had, or stands in the way; nothing was changed.
pub fn install(asked: &Install) -> Result<(), Failure> {
    let put = match asked.hand_over {
        true => install::hand_over(&asked.folders.bin_dir),
        false => items(asked).and_then(|items| install::put(&items)),
    };
    let said = asked.output.say(&put_answer(&put.map_err(of_install)?));
    said.map_err(|failure| failure.although("all is installed"))
}

fn items(asked: &Install) -> install::Result<Vec<Item>> {
    let from = match &asked.from {
        Some(from) => from.clone(),
        None => beside_podnet(),
    };
    let mut items = install::programs(&from, &asked.folders.bin_dir, asked.standard_names)?;
    if let Some(file) = &asked.conf {
        let text = reading::bytes(file).map_err(|error| Error::Configuration {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        let item = install::configuration(file, text, &asked.folders.conf_dir)?;
        items.push(item);
    }
    Ok(items)
}

/// As a package puts podnet elsewhere, the usual folder of plugins is the next one to look in.
fn beside_podnet() -> PathBuf {
    let own = std::env::current_exe().ok();
    let own = own.and_then(|own| Some(own.parent()?.to_owned()));
    let has_plugins = |folder: &Path| {
        folder
            .join(format!("{}-lite", install::PLUGINS[0]))
            .exists()
    };
    let usual = PathBuf::from(USUAL_PLUGINS);
    match own {
        Some(own) if has_plugins(&own) || !has_plugins(&usual) => own,
        _ => usual,
    }
}

fn of_install(error: Error) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error),
        false => Failure::Failed(error.to_string()),
    }
}

/// Takes back what was installed, and says what became of each file.
///
/// # Errors
/// A folder cannot be looked at.
pub fn uninstall(asked: &Uninstall) -> Result<ExitCode, Failure> {
    let mut removed = Vec::new();
    let mut failed = Vec::new();
    let Folders { bin_dir, conf_dir } = &asked.folders;
    let mut folders = vec![bin_dir, conf_dir];
    // What stays there is told once.
    folders.dedup();
    for folder in folders {
        match install::remove(folder) {
            Ok(all) => all.into_iter().for_each(|one| match one {
                Ok(one) => removed.push(one),
                Err(error) => failed.push(error),
            }),
            Err(error) => failed.push(error),
        }
    }
    let mut answer = removed_answer(&removed);
    if removed.is_empty() && failed.is_empty() {
        let (bin_dir, conf_dir) = (bin_dir.display(), conf_dir.display());
        let said = format!("nothing is listed as installed in {bin_dir} and {conf_dir}");
        answer.text = one_line(&said);
    }
    let said = asked.output.say(&answer);
    failed.iter().for_each(complain);
    let done = "what can be is taken back";
    said.map_err(|failure| failure.although(done))?;
    Ok(match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn put_answer(put: &[Put]) -> Answer {
    let words = |done: Done| match done {
        Done::Unchanged => ("unchanged", "unchanged"),
        Done::Enabled => ("enabled", "made executable"),
        Done::Created => ("installed", "installed"),
        Done::Updated => ("updated", "updated"),
        Done::Replaced => ("replaced", "replaced another's"),
    };
    let one = |put: &Put| (put.path.clone(), words(put.done), put.backup.clone());
    answer(put.iter().map(one), "backup")
}

fn removed_answer(removed: &[Removed]) -> Answer {
    let words = |undone: Undone| match undone {
        Undone::Removed => ("removed", "removed"),
        Undone::Restored => ("restored", "brought back another's"),
        Undone::Left => ("left", "left what is not as it was installed:"),
    };
    let one = |it: &Removed| (it.path.clone(), words(it.undone), it.backup.clone());
    answer(removed.iter().map(one), "left the backup")
}

/// A line for each file and one for each backup; the words are those of JSON and of text.
fn answer(
    files: impl Iterator<Item = (PathBuf, (&'static str, &'static str), Option<PathBuf>)>,
    backups: &str,
) -> Answer {
    let mut text = String::new();
    let mut all: Vec<Value> = Vec::new();
    for (path, (done, said), backup) in files {
        let path = path.display().to_string();
        text.push_str(&format!("{said} {}\n", one_line(&path)));
        let mut file = json!({ "path": path, "done": done });
        if let Some(backup) = backup {
            let backup = backup.display().to_string();
            text.push_str(&format!("{backups} {}\n", one_line(&backup)));
            file["backup"] = backup.into();
        }
        all.push(file);
    }
    Answer {
        text,
        json: json!({ "files": all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_both_forms() {
        let one = |name: &str, done, backup: Option<&str>| Put {
            path: name.into(),
            done,
            backup: backup.map(Into::into),
        };
        let answer = put_answer(&[
            one("/b/a", Done::Created, None),
            one("/b/b", Done::Replaced, Some("/b/b.bak")),
            one("/b/c\nd", Done::Unchanged, None),
        ]);
        assert_eq!(
            answer.text,
            "installed /b/a\nreplaced another's /b/b\nbackup /b/b.bak\nunchanged /b/c\\nd\n"
        );
        let expected = json!({ "files": [
            { "path": "/b/a", "done": "installed" },
            { "path": "/b/b", "done": "replaced", "backup": "/b/b.bak" },
            { "path": "/b/c\nd", "done": "unchanged" }
        ] });
        assert_eq!(answer.json, expected);
    }

    #[test]
    fn what_was_taken_back_in_both_forms() {
        let one = |undone, backup: Option<&str>| Removed {
            path: "/b/a".into(),
            undone,
            backup: backup.map(Into::into),
        };
        let answer = removed_answer(&[
            one(Undone::Restored, None),
            one(Undone::Left, Some("/b/a.bak")),
        ]);
        assert_eq!(
            answer.text,
            "brought back another's /b/a\nleft what is not as it was installed: /b/a\n\
             left the backup /b/a.bak\n"
        );
        assert_eq!(answer.json["files"][1]["backup"], "/b/a.bak");
    }
}
