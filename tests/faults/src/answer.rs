//! Whether a plugin has said what a runtime can use.

use ::tests::Answer;

/// What is wrong with an answer: it must be a success or an error object. Where the plugin was kept from
/// writing it, its status must tell.
pub fn is_unclear(answer: &Answer, could_write: bool) -> Option<String> {
    let text = |key: &str| answer.json[key].as_str().unwrap_or_default();
    let code = answer.json["code"].as_u64().unwrap_or_default();
    let said = answer.stderr.trim();
    match answer.status {
        _ if said.contains("panicked") => Some(format!("panics: {said}")),
        0 => None,
        1 if code > 0 && !text("msg").is_empty() => None,
        1 if !could_write => None,
        status => Some(format!(
            "ends with status {status} and says {:?}, {said:?}",
            answer.stdout
        )),
    }
}

/// An error in one line.
pub fn told(answer: &Answer) -> String {
    let text = |key: &str| answer.json[key].as_str().unwrap_or_default();
    match answer.status {
        0 => "success".to_owned(),
        status => format!("status {status}: {} {}", text("msg"), text("details")),
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
        assert_eq!(is_unclear(&answer(0, "{}", ""), true), None);
        assert_eq!(is_unclear(&answer(1, &error, "a warning"), true), None);
        assert_eq!(is_unclear(&answer(1, "{", ""), false), None);
        for bad in [
            answer(1, "", ""),
            answer(-1, "", ""),
            answer(101, &error, ""),
            answer(0, "{}", "thread 'main' panicked at"),
        ] {
            assert!(is_unclear(&bad, true).is_some(), "{bad:?}");
        }
    }
}
