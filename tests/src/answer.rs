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

impl Answer {
    /// What is wrong with it, if anything: it must be a success or an error object. Where the plugin was
    /// kept from writing it, its status must tell.
    pub fn is_unclear(&self, could_write: bool) -> Option<String> {
        let said = self.stderr.trim();
        let is_error = self.json["code"].as_u64() > Some(0) && !self.text("msg").is_empty();
        match self.status {
            _ if said.contains("panicked") => Some(format!("panics: {said}")),
            0 => None,
            1 if is_error || !could_write => None,
            status => Some(format!(
                "ends with status {status} and says {:?}, {said:?}",
                self.stdout
            )),
        }
    }

    /// It in one line.
    pub fn told(&self) -> String {
        match self.status {
            0 => "success".to_owned(),
            status => format!(
                "status {status}: {} {}",
                self.text("msg"),
                self.text("details")
            ),
        }
    }

    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: i32, stdout: &str, stderr: &str) -> Answer {
        Answer {
            status,
            stdout: stdout.to_owned(),
            json: serde_json::from_str(stdout).unwrap_or_default(),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn an_answer_is_a_success_or_an_error() {
        let error = json!({ "code": 7, "msg": "m" }).to_string();
        assert_eq!(answer(0, "{}", "").is_unclear(true), None);
        assert_eq!(answer(1, &error, "a warning").is_unclear(true), None);
        assert_eq!(answer(1, "{", "").is_unclear(false), None);
        for bad in [
            answer(1, "", ""),
            answer(-1, "", ""),
            answer(101, &error, ""),
            answer(0, "{}", "thread 'main' panicked at"),
        ] {
            assert!(bad.is_unclear(true).is_some(), "{bad:?}");
        }
    }
}
