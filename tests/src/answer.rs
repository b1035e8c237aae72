//! What a plugin answered.

use std::process::Output;

use serde_json::Value;

/// A plugin's exit status and output.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The exit status; -1 where a signal ended it.
    pub status: i32,
    /// Standard output as it came.
    pub stdout: String,
    /// Standard output as JSON; null where it is none.
    pub json: Value,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    /// The JSON of a call that succeeded (null for what prints nothing).
    #[track_caller]
    pub fn ok(&self) -> &Value {
        assert_eq!(self.status, 0, "not a success: {self:?}");
        &self.json
    }

    /// Code and message (with details) of a call that was refused as the specification says.
    #[track_caller]
    pub fn error(&self) -> (u64, String) {
        assert_eq!(self.status, 1, "not a failure: {self:?}");
        let code = self.json.get("code").and_then(Value::as_u64);
        let text = |key| {
            self.json
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let message = format!("{} {}", text("msg"), text("details"));
        (
            code.unwrap_or_else(|| panic!("no error code: {self:?}")),
            message.trim().to_owned(),
        )
    }
}

impl Answer {
    /// That the call was refused with that code, in the configuration's version, by a message
    /// (with details) that has all the words.
    #[track_caller]
    pub fn expect_refused(&self, case: &str, code: u64, words: &[&str]) {
        assert_eq!(self.status, 1, "{case}: not refused: {self:?}");
        let (given, message) = self.error();
        assert_eq!(given, code, "{case}: {message}");
        for word in words {
            assert!(message.contains(word), "{case}: no {word:?} in: {message}");
        }
        assert!(self.json["cniVersion"].is_string(), "{case}: {self:?}");
        assert_eq!(message.lines().count(), 1, "{case}: {message}");
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Answer {
        Answer {
            status: output.status.code().unwrap_or(-1),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
