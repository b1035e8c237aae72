//! Calling another plugin, as bridge calls its IPAM (specification, section "Delegation").

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{AddResult, Command, Error, Request, code, exec};

/// The reference host-local's words, under whatever code, for an attachment that has an address.
const DUPLICATE: &str = "duplicate allocation is not allowed";

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
    /// Code 7 for a name that is empty or has a `/`, and for the calling plugin itself, which would
    /// call itself without end; 4 where it is not on `CNI_PATH`.
    pub fn find(kind: &str, request: &Request) -> Result<Delegate, Error> {
        let program = exec::find(kind, &request.env.path)?;
        if is_running(&program) {
            return Err(Error::config(format!("invalid plugin name: {kind}"))
                .details("it is the calling plugin itself"));
        }
        Ok(Delegate { program })
    }

    /// Calls ADD with the request's configuration, bytes as they came. If it fails, DEL follows
    /// at once, as the specification wants it; but not where the delegate refused because an
    /// earlier ADD of the attachment stands: DEL would unmake that one.
    ///
    /// # Errors
    /// The delegate's own error, unchanged.
    pub fn add(&self, request: &Request) -> Result<AddResult, Error> {
        let result = self
            .exec(Command::Add, request)
            .and_then(|printed| AddResult::from_bytes(&printed, request.config.cni_version));
        if result.as_ref().is_err_and(|error| !made_nothing(error)) {
            // ADD's error says more than what DEL meets after it.
            let _ = self.call(Command::Del, request);
        }
        result
    }

    /// Calls any other verb.
    ///
    /// # Errors
    /// The delegate's own error, unchanged.
    pub fn call(&self, command: Command, request: &Request) -> Result<(), Error> {
        self.exec(command, request).map(|_| ())
    }

    fn exec(&self, command: Command, request: &Request) -> Result<Vec<u8>, Error> {
        let variables = [("CNI_COMMAND", command.as_str().as_ref())];
        exec::call(&self.program, &variables, &request.config.raw)
    }
}

/// Whether the error of an ADD says that this call has made nothing: what it would make is there
/// already, or another call holds the lock.
fn made_nothing(error: &Error) -> bool {
    matches!(error.code, code::ALREADY_EXISTS | code::TRY_AGAIN_LATER)
        || error.msg.contains(DUPLICATE)
        || error.details.contains(DUPLICATE)
}

/// Whether it is this process's own program, by whatever name.
fn is_running(program: &Path) -> bool {
    let identity = |file: PathBuf| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let own = std::env::current_exe().ok().and_then(identity);
    own.is_some() && own == identity(program.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::exec::tests::script;
    use crate::{Config, Env};

    fn request(version: &str) -> Request {
        let lookup = |name: &str| Some(if name == "CNI_IFNAME" { "eth0" } else { "x" }.to_owned());
        let config = format!(r#"{{"cniVersion": "{version}",   "NAME": "n"}}"#);
        Request::new(
            Env::read(Command::Add, lookup).unwrap(),
            Config::parse(config.into()).unwrap(),
        )
    }

    /// A delegate that notes its calls and input, then runs `text`.
    fn delegate(text: &str) -> (tempfile::TempDir, Delegate) {
        let note = r#"cd "$(dirname "$0")"; echo $CNI_COMMAND >> calls; cat > input"#;
        let (folder, program) = script("ipam", &format!("{note}\n{text}"));
        (folder, Delegate { program })
    }

    fn note(folder: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(folder.path().join(name)).unwrap()
    }

    #[test]
    fn add_hands_over_the_bytes_and_reads_the_answer() {
        let text = r#"echo '{"ip4": {"ip": "10.1.0.2/24"}}'"#;
        let (folder, ipam) = delegate(text);
        let request = request("0.2.0");
        let result = ipam.add(&request).unwrap();
        assert_eq!(result.ips[0].address.to_string(), "10.1.0.2/24");
        assert_eq!(note(&folder, "input").as_bytes(), request.config.raw);
        assert_eq!(note(&folder, "calls"), "ADD\n");
    }

    #[test]
    fn the_answer_may_be_of_another_version() {
        let text = r#"echo '{"cniVersion": "0.2.0", "ip6": {"ip": "fd00::2/64"}}'"#;
        let (_folder, ipam) = delegate(text);
        let result = ipam.add(&request("1.1.0")).unwrap();
        assert_eq!(result.ips[0].address.to_string(), "fd00::2/64");
    }

    #[test]
    fn a_failed_add_is_followed_by_del() {
        let failing = r#"echo '{"code": 102, "msg": "full", "details": "d"}'; exit 1"#;
        let expected = Error::new(102, "full").details("d");
        for (text, check) in [(failing, Some(expected)), ("echo nonsense", None)] {
            let (folder, ipam) = delegate(text);
            let error = ipam.add(&request("1.0.0")).unwrap_err();
            assert_eq!(note(&folder, "calls"), "ADD\nDEL\n");
            if let Some(expected) = check {
                assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn what_made_nothing_is_told_by_code_or_words() {
        let words = "10.1.0.2 has been allocated to c, duplicate allocation is not allowed";
        for (error, expected) in [
            (Error::new(103, "any"), true),
            (Error::new(11, "any"), true),
            (Error::new(999, words), true),
            (Error::new(999, "any").details(words), true),
            (Error::new(102, "full"), false),
            (Error::new(100, "any").details("d"), false),
            (Error::new(999, "duplicate"), false),
        ] {
            assert_eq!(made_nothing(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_refusal_that_made_nothing_is_not_followed_by_del() {
        let duplicate = r#"{"code": 999, "msg": "duplicate allocation is not allowed"}"#;
        for printed in [r#"{"code": 103, "msg": "m"}"#, duplicate] {
            let (folder, ipam) = delegate(&format!("echo '{printed}'; exit 1"));
            ipam.add(&request("1.0.0")).unwrap_err();
            assert_eq!(note(&folder, "calls"), "ADD\n");
        }
    }

    #[test]
    fn other_verbs() {
        let (folder, ipam) = delegate("");
        for command in [Command::Del, Command::Check, Command::Gc, Command::Status] {
            ipam.call(command, &request("1.1.0")).unwrap();
        }
        assert_eq!(note(&folder, "calls"), "DEL\nCHECK\nGC\nSTATUS\n");
    }

    #[test]
    fn a_plugin_does_not_call_itself() {
        let (folder, _) = script("other", "");
        symlink(
            std::env::current_exe().unwrap(),
            folder.path().join("alias"),
        )
        .unwrap();
        let mut request = request("1.0.0");
        request.env.path = vec![folder.path().to_owned()];
        assert!(Delegate::find("other", &request).is_ok());
        let error = Delegate::find("alias", &request).unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (7, "invalid plugin name: alias")
        );
    }
}
