//! Pod sandboxes.

use std::fmt;

use k8s_cri::v1;

/// A pod sandbox: what holds a pod's network namespace. Its id is the container id of its attachments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id.
    pub id: String,
    /// Name of the pod.
    pub name: String,
    /// Namespace of the pod, in Kubernetes' meaning.
    pub namespace: String,
    /// Uid of the pod.
    pub uid: String,
    /// Its state.
    pub state: State,
}

/// The state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Ready,
    /// It was stopped, or its process has ended. The runtime still keeps it.
    NotReady,
    /// One that a newer interface knows.
    Unknown(i32),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Ready => f.write_str("ready"),
            State::NotReady => f.write_str("not ready"),
            State::Unknown(number) => write!(f, "state {number}"),
        }
    }
}

impl Sandbox {
    /// A runtime need not give metadata, but an id is what a sandbox is.
    pub(crate) fn read(of_wire: v1::PodSandbox) -> Result<Sandbox, String> {
        let metadata = of_wire.metadata.unwrap_or_default();
        let (name, namespace) = (metadata.name, metadata.namespace);
        if of_wire.id.is_empty() {
            return Err(format!("the sandbox of pod {namespace}/{name} has no id"));
        }
        let state = match v1::PodSandboxState::try_from(of_wire.state) {
            Ok(v1::PodSandboxState::SandboxReady) => State::Ready,
            Ok(v1::PodSandboxState::SandboxNotready) => State::NotReady,
            Err(_) => State::Unknown(of_wire.state),
        };
        Ok(Sandbox {
            id: of_wire.id,
            name,
            namespace,
            uid: metadata.uid,
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes() {
        let wire = |id: &str, state: i32| v1::PodSandbox {
            id: id.to_owned(),
            state,
            metadata: Some(v1::PodSandboxMetadata {
                name: "web".to_owned(),
                namespace: "default".to_owned(),
                uid: "u".to_owned(),
                attempt: 0,
            }),
            ..v1::PodSandbox::default()
        };
        let expected = Sandbox {
            id: "a".to_owned(),
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            uid: "u".to_owned(),
            state: State::NotReady,
        };
        assert_eq!(Sandbox::read(wire("a", 1)), Ok(expected));
        for (number, state) in [(0, "ready"), (1, "not ready"), (7, "state 7")] {
            let sandbox = Sandbox::read(wire("a", number)).unwrap();
            assert_eq!(sandbox.state.to_string(), state);
        }
        let error = Sandbox::read(wire("", 0)).unwrap_err();
        assert_eq!(error, "the sandbox of pod default/web has no id");
        let bare = v1::PodSandbox {
            metadata: None,
            ..wire("b", 0)
        };
        assert_eq!(Sandbox::read(bare).unwrap().name, "");
    }
}
