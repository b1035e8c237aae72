//! Why a runtime gave no answer.

use std::time::Duration;

use tonic::{Code, Status};

use crate::Endpoint;

/// Why a runtime gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there, or not to us.
    #[error("the runtime at {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// Where.
        endpoint: Endpoint,
        /// What the kernel or the transport says.
        reason: String,
    },
    /// No answer came in time.
    #[error("the runtime at {endpoint} gave no answer to {call} in {} s", limit.as_secs_f64())]
    Late {
        /// Where.
        endpoint: Endpoint,
        /// The call, as the interface calls it.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// It serves another version of the interface.
    #[error("the runtime at {endpoint} does not serve {call} of CRI v1: {reason}")]
    Unserved {
        /// Where.
        endpoint: Endpoint,
        /// The call, as the interface calls it.
        call: &'static str,
        /// What it says.
        reason: String,
    },
    /// It answered with an error.
    #[error("the runtime at {endpoint} refused {call}: {code:?}: {reason}")]
    Refused {
        /// Where.
        endpoint: Endpoint,
        /// The call, as the interface calls it.
        call: &'static str,
        /// The status code of gRPC.
        code: Code,
        /// What it says.
        reason: String,
    },
    /// Its answer is not one that the interface allows.
    #[error("the runtime at {endpoint} gave an answer to {call} that cannot be used: {reason}")]
    Odd {
        /// Where.
        endpoint: Endpoint,
        /// The call, as the interface calls it.
        call: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// What a call's status means. A connection that breaks is told as a status as well.
    pub(crate) fn of(endpoint: &Endpoint, call: &'static str, status: &Status) -> Error {
        let endpoint = endpoint.clone();
        let reason = status.message().to_owned();
        match status.code() {
            Code::Unimplemented => Error::Unserved {
                endpoint,
                call,
                reason,
            },
            code => Error::Refused {
                endpoint,
                call,
                code,
                reason,
            },
        }
    }
}

/// An error with all its causes: of the transport's the innermost alone says what is wrong.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
