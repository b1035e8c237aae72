//! Calling another plugin, as bridge calls its IPAM (specification, section "Delegation").

use std::path::PathBuf;

use crate::{AddResult, Command, Error, Request};

/// A plugin found on `CNI_PATH`, to be called with the caller's own request.
#[derive(Debug, Clone)]
pub struct Delegate {
    /// The program.
    pub program: PathBuf,
}

impl Delegate {
    /// Looks for `kind` in the request's `CNI_PATH`.
    ///
    /// # Errors
    /// Code 7 for a name that is empty or has a `/`, 4 where it is not on `CNI_PATH`.
    pub fn find(kind: &str, request: &Request) -> Result<Delegate, Error> {
        let _ = (kind, request);
        todo!()
    }

    /// Calls ADD with the request's configuration, bytes as they came.
    ///
    /// # Errors
    /// The delegate's own error, unchanged.
    pub fn add(&self, request: &Request) -> Result<AddResult, Error> {
        let _ = request;
        todo!()
    }

    /// Calls any other verb.
    ///
    /// # Errors
    /// The delegate's own error, unchanged.
    pub fn call(&self, command: Command, request: &Request) -> Result<(), Error> {
        let _ = (command, request);
        todo!()
    }
}
