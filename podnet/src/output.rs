//! How answers are printed.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::failure::Failure;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// How the answer is printed
    #[arg(long = "output", value_enum, default_value_t = Form::Text)]
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// `key=value`, or one item a line
    Text,
    Json,
}

/// An answer in both forms.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Lines.
    pub text: String,
    /// The same for programs.
    pub json: Value,
}

impl Answer {
    /// Puts another answer behind this one, under a key of its own.
    pub fn add(&mut self, key: &str, other: Answer) {
        self.text.push_str(&other.text);
        if let Value::Object(object) = &mut self.json {
            object.insert(key.to_owned(), other.json);
        }
    }
}

impl Output {
    /// Prints the answer.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn say(self, answer: &Answer) -> Result<(), Failure> {
        match self.form {
            Form::Text => say(&answer.text),
            Form::Json => say(&cni::pretty(&answer.json)),
        }
    }
}

/// Prints a text, with one line feed at its end; nothing for none.
///
/// # Errors
/// Standard output cannot be written to.
pub fn say(text: &str) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    writeln!(io::stdout(), "{}", text.trim_end()).map_err(|error| Failure::of_output(&error))
}
