//! The runtime's side: network configuration lists, capabilities, calling a chain, the cache.
//!
//! All of it is synchronous, and a plugin is started in the network namespace of the calling
//! thread. Files, variables and the order of calls are those of the field's runtimes, so that
//! their cache and configurations can be used.

mod cache;
mod input;
mod list;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{AddResult, Attachment, Command, Error, Version, code, env, exec, json};

pub use crate::exec::{Child, Exec, while_busy};
pub use list::{NetworkList, keys_of, read_regular};

/// Where runtimes cache results unless told otherwise.
pub const DEFAULT_CACHE: &str = "/var/lib/cni";

/// Where plugins are looked for and results are kept.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// The folders of plugins, `CNI_PATH`.
    pub path: Vec<PathBuf>,
    /// The cache; results are files in its folder `results`.
    pub cache: PathBuf,
    /// How plugins are run.
    pub exec: Arc<dyn Exec>,
}

/// One attachment as a runtime asks for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeConf {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_NETNS`; `None` is sent as the empty text.
    pub netns: Option<PathBuf>,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: Vec<(String, String)>,
    /// What each capability is given, as `portMappings` or `bandwidth`. A plugin sees those that
    /// its `capabilities` name.
    pub capability_args: Map<String, Value>,
}

/// An attachment that ADD has made and no DEL has removed, as the cache has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedAttachment {
    /// Whose it is.
    pub attachment: Attachment,
    /// `CNI_NETNS` of its ADD, as the runtime wrote it down or else as the result tells it; `None` where
    /// that is not known.
    pub netns: Option<PathBuf>,
    /// The bytes of the list that it was made with.
    pub config: Vec<u8>,
    /// `CNI_ARGS` of its ADD.
    pub args: Vec<(String, String)>,
    /// When it was noted; `None` where the file system does not say.
    pub noted: Option<SystemTime>,
}

impl CachedAttachment {
    /// As CHECK and DEL ask for it; what ADD was given beside is in the cache.
    pub fn conf(&self) -> RuntimeConf {
        RuntimeConf {
            container_id: self.attachment.container_id.clone(),
            ifname: self.attachment.ifname.clone(),
            netns: self.netns.clone(),
            ..RuntimeConf::default()
        }
    }
}

impl RuntimeConf {
    fn validate(&self) -> Result<(), Error> {
        if self.container_id.is_empty() || self.ifname.is_empty() {
            let msg = "a container id and an interface name are required";
            return Err(Error::new(code::INVALID_ENVIRONMENT, msg));
        }
        env::validate_container_id(&self.container_id)?;
        env::validate_ifname(&self.ifname)
    }

    /// The same, with the arguments that ADD was given where this has none.
    fn or_cached(&self, cached: &cache::Cached) -> RuntimeConf {
        let mut conf = self.clone();
        if conf.args.is_empty() {
            conf.args.clone_from(&cached.args);
        }
        if conf.capability_args.is_empty() {
            conf.capability_args.clone_from(&cached.capability_args);
        }
        conf
    }
}

/// Reads the text of `CNI_ARGS`, `K=V;K2=V2`.
///
/// # Errors
/// Code 4 for a pair that is none.
pub fn parse_args(text: &str) -> Result<Vec<(String, String)>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(';')
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() && !value.contains('=') => {
                Ok((key.to_owned(), value.to_owned()))
            }
            _ => Err(Error::new(
                code::INVALID_ENVIRONMENT,
                format!("invalid CNI_ARGS pair {pair:?}"),
            )),
        })
        .collect()
}

impl Runtime {
    /// One that runs plugins as children.
    pub fn new(path: Vec<PathBuf>, cache: PathBuf) -> Runtime {
        Runtime {
            path,
            cache,
            exec: Arc::new(Child),
        }
    }

    /// Calls ADD of each plugin in order, hands each one's result to the next, and caches the
    /// last. What a chain that fails half-way has made stays until [`Runtime::del`].
    ///
    /// # Errors
    /// The failed plugin's own, named before its message; code 5 where the result is not cached.
    pub fn add(&self, list: &NetworkList, conf: &RuntimeConf) -> Result<AddResult, Error> {
        conf.validate()?;
        let mut result = AddResult::default();
        let mut printed = None;
        for plugin in &list.plugins {
            let input = input::for_attachment(list, plugin, printed.as_ref(), conf);
            result = self
                .call(Command::Add, input::kind(plugin), &input, conf)
                .and_then(|bytes| AddResult::from_bytes(&bytes, list.cni_version))
                .map_err(|error| failed(plugin, "add", error))?;
            printed = Some(result.to_json(list.cni_version)?);
        }
        if let Some(printed) = printed {
            cache::store(&self.cache, list, conf, printed)?;
        }
        Ok(result)
    }

    /// Calls CHECK of each plugin in order with the cached result, and with the cached arguments
    /// where `conf` has none. Does nothing where the list says `disableCheck`.
    ///
    /// # Errors
    /// The failed plugin's own, named before its message; code 1 for a list older than 0.4.0.
    pub fn check(&self, list: &NetworkList, conf: &RuntimeConf) -> Result<(), Error> {
        conf.validate()?;
        if list.cni_version < Version::V0_4_0 {
            return Err(Error::new(
                code::INCOMPATIBLE_VERSION,
                format!(
                    "configuration version \"{}\" does not support the CHECK command",
                    list.cni_version
                ),
            ));
        }
        if list.disable_check {
            return Ok(());
        }
        let cached = cache::load(&self.cache, list, conf);
        let conf = conf.or_cached(&cached);
        list.plugins.iter().try_for_each(|plugin| {
            let input = input::for_attachment(list, plugin, cached.result.as_ref(), &conf);
            self.call(Command::Check, input::kind(plugin), &input, &conf)
                .map(|_| ())
                .map_err(|error| failed(plugin, "check", error))
        })
    }

    /// Calls DEL of each plugin, last one first, with the cached result (from 0.4.0 on), and with
    /// the cached arguments where `conf` has none; then forgets what was cached.
    ///
    /// # Errors
    /// The failed plugin's own, named before its message.
    pub fn del(&self, list: &NetworkList, conf: &RuntimeConf) -> Result<(), Error> {
        conf.validate()?;
        let cached = cache::load(&self.cache, list, conf);
        let conf = conf.or_cached(&cached);
        let prev_result = cached
            .result
            .filter(|_| list.cni_version >= Version::V0_4_0);
        for plugin in list.plugins.iter().rev() {
            let input = input::for_attachment(list, plugin, prev_result.as_ref(), &conf);
            self.call(Command::Del, input::kind(plugin), &input, &conf)
                .map_err(|error| failed(plugin, "delete", error))?;
        }
        cache::remove(&self.cache, list, &conf);
        Ok(())
    }

    /// Calls STATUS of each plugin, where the list's version knows it (1.1.0).
    ///
    /// # Errors
    /// The first plugin's own.
    pub fn status(&self, list: &NetworkList) -> Result<(), Error> {
        if list.cni_version < Version::V1_1_0 {
            return Ok(());
        }
        list.plugins.iter().try_for_each(|plugin| {
            let input = input::for_network(list, plugin);
            self.call(
                Command::Status,
                input::kind(plugin),
                &input,
                &RuntimeConf::default(),
            )
            .map(|_| ())
            .map_err(|error| failed(plugin, "status", error))
        })
    }

    /// Removes whatever belongs to none of `valid`, given as container id and interface name: by DEL
    /// what the cache knows, then by GC of each plugin, where the list's version has it (1.1.0). Does
    /// nothing where the list says `disableGC`.
    ///
    /// # Errors
    /// Those of all calls, once each was made.
    pub fn gc(&self, list: &NetworkList, valid: &[(String, String)]) -> Result<(), Error> {
        if list.disable_gc {
            return Ok(());
        }
        let mut errors = self.del_all_but(list, valid);
        errors.extend(self.gc_by_plugins(list, valid).err());
        Error::all(errors)
    }

    /// Calls GC of each plugin, where the list's version has it (1.1.0): what belongs to none of
    /// `valid` goes, given as container id and interface name. The cache stays as it is. Does nothing
    /// where the list says `disableGC`.
    ///
    /// # Errors
    /// Those of all calls, once each was made.
    pub fn gc_by_plugins(
        &self,
        list: &NetworkList,
        valid: &[(String, String)],
    ) -> Result<(), Error> {
        if list.disable_gc || list.cni_version < Version::V1_1_0 {
            return Ok(());
        }
        let call = |plugin: &Map<String, Value>| {
            let input = input::for_gc(list, plugin, valid);
            let nobody = RuntimeConf::default();
            self.call(Command::Gc, input::kind(plugin), &input, &nobody)
                .map_err(|error| failed(plugin, "gc", error))
        };
        let errors = list.plugins.iter().filter_map(|plugin| call(plugin).err());
        Error::all(errors.collect())
    }

    /// DEL of each cached attachment of the network that is not valid.
    fn del_all_but(&self, list: &NetworkList, valid: &[(String, String)]) -> Vec<Error> {
        let is_valid = |it: &Attachment| {
            let same =
                |(id, ifname): &(String, String)| *id == it.container_id && *ifname == it.ifname;
            valid.iter().any(same)
        };
        match cache::all(&self.cache) {
            Err(error) => vec![error],
            Ok(all) => all
                .into_iter()
                // What cannot be read is left to the plugins' GC.
                .filter_map(Result::ok)
                .filter(|known| known.attachment.network == list.name)
                .filter(|known| !is_valid(&known.attachment))
                .filter_map(|known| self.del(list, &known.conf()).err())
                .collect(),
        }
    }

    /// All attachments in the cache, whatever their network.
    ///
    /// # Errors
    /// Code 5 where something in the cache cannot be read.
    pub fn attachments(&self) -> Result<Vec<CachedAttachment>, Error> {
        self.each_attachment()?.into_iter().collect()
    }

    /// As [`Runtime::attachments`], but a file that cannot be read only takes its own place.
    ///
    /// # Errors
    /// Code 5 where the cache's folder cannot be read.
    pub fn each_attachment(&self) -> Result<Vec<Result<CachedAttachment, Error>>, Error> {
        cache::all(&self.cache)
    }

    /// Whether the cache has a file of the attachment, be it one that cannot be read.
    pub fn has_result(&self, network: &str, container_id: &str, ifname: &str) -> bool {
        cache::file(&self.cache, network, container_id, ifname)
            .symlink_metadata()
            .is_ok()
    }

    /// The versions that the plugin `kind` speaks, as it lists them.
    ///
    /// # Errors
    /// As [`Runtime::call`]; code 6 for an answer without a list.
    pub fn versions(&self, kind: &str) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            supported_versions: Vec<String>,
        }
        let input = serde_json::json!({"cniVersion": Version::NEWEST.as_str()}).to_string();
        let conf = RuntimeConf::default();
        let printed = self.call(Command::Version, kind, input.as_bytes(), &conf)?;
        let answer: Result<Answer, _> = json::parse(&printed)
            .map_err(|error| error.to_string())
            .and_then(|value| json::read(&value).map_err(|mismatch| mismatch.to_string()));
        answer
            .map(|answer| answer.supported_versions)
            .map_err(|error| {
                Error::new(
                    code::DECODING_FAILURE,
                    format!("cannot read the versions of plugin {kind:?}: {error}"),
                )
            })
    }

    /// One call of the plugin `kind` with `config` on its standard input; what it printed.
    ///
    /// # Errors
    /// The plugin's own; code 4 where it is not found, 7 where its name is none.
    pub fn call(
        &self,
        command: Command,
        kind: &str,
        config: &[u8],
        conf: &RuntimeConf,
    ) -> Result<Vec<u8>, Error> {
        let program = exec::find(kind, &self.path)?;
        let path = std::env::join_paths(&self.path)
            .map_err(|error| Error::new(code::INVALID_ENVIRONMENT, format!("CNI_PATH: {error}")))?;
        let args: Vec<_> = conf.args.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let args = args.join(";");
        let netns = conf.netns.clone().unwrap_or_default();
        let variables = [
            ("CNI_COMMAND", command.as_str().as_ref()),
            ("CNI_CONTAINERID", conf.container_id.as_ref()),
            ("CNI_NETNS", netns.as_os_str()),
            ("CNI_IFNAME", conf.ifname.as_ref()),
            ("CNI_ARGS", args.as_ref()),
            ("CNI_PATH", path.as_os_str()),
        ];
        exec::call_by(&*self.exec, &program, &variables, config)
    }
}

/// The plugin's error with its type before the message.
fn failed(plugin: &Map<String, Value>, verb: &str, error: Error) -> Error {
    let kind = input::kind(plugin);
    Error {
        msg: format!("plugin type={kind:?} failed ({verb}): {}", error.msg),
        ..error
    }
}
