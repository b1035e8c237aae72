//! The skeleton that turns a [`Plugin`] into a process.

use std::process::ExitCode;

use crate::{AddResult, Attachment, Config, Env, Error, Version};

/// One call of a plugin, parsed and validated.
#[derive(Debug, Clone)]
pub struct Request {
    /// The environment.
    pub env: Env,
    /// The configuration.
    pub config: Config,
}

impl Request {
    /// Whom the call is about (ADD, DEL, CHECK).
    pub fn attachment(&self) -> Attachment {
        Attachment {
            network: self.config.name.clone(),
            container_id: self.env.container_id.clone(),
            ifname: self.env.ifname.clone(),
        }
    }
}

/// What a plugin does for each verb.
pub trait Plugin {
    /// The name in the about text, as `bridge`.
    const NAME: &'static str;
    /// The versions it speaks, oldest first.
    const VERSIONS: &'static [Version] = Version::ALL;

    /// Makes the attachment.
    ///
    /// # Errors
    /// Whatever prevents it; the machine is then as it was.
    fn add(&self, request: &Request) -> Result<AddResult, Error>;

    /// Unmakes the attachment, whatever of it is there.
    ///
    /// # Errors
    /// Only when something real is still there.
    fn del(&self, request: &Request) -> Result<(), Error>;

    /// Compares what is there with what ADD made.
    ///
    /// # Errors
    /// The first difference.
    fn check(&self, request: &Request) -> Result<(), Error>;

    /// Removes what belongs to no valid attachment.
    ///
    /// # Errors
    /// What could not be removed.
    fn gc(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }

    /// Whether ADD can be served.
    ///
    /// # Errors
    /// Code 50 or 51 with the reason.
    fn status(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }
}

/// The whole `main` of a plugin: reads environment and standard input, calls the verb, prints.
pub fn run(plugin: &impl Plugin) -> ExitCode {
    let _ = plugin;
    todo!()
}
