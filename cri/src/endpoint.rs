//! Where a runtime listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A unix socket, written as kubelet and crictl write it: `unix:///run/containerd/containerd.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        match text.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') && !path.ends_with('/') => {
                Ok(Endpoint(path.into()))
            }
            _ => Err("a unix socket by its absolute path is needed, as \
                 unix:///run/containerd/containerd.sock"
                .to_owned()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_endpoint() {
        let text = "unix:///run/containerd/containerd.sock";
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(
            endpoint.path(),
            Path::new("/run/containerd/containerd.sock")
        );
        assert_eq!(endpoint.to_string(), text);
        for text in [
            "",
            "unix://",
            "unix:///",
            "unix://run/a.sock",
            "/run/a.sock",
            "tcp://127.0.0.1:80",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
