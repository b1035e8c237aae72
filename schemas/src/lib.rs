//! The JSON Schemas of `conf/schema`, made out of the types that read what they describe.
//!
//! For tests alone: no binary is linked with this. The crate of a type makes its schema in a unit
//! test and hands it to [`expect_shipped`]; [`disagreements`] tells where it does not say what the
//! type's reader says.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agree;
mod made;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::{Retrieve, Uri, Validator};
use schemars::Schema;
use serde_json::Value;

pub use agree::{disagreements, expect_refused, on_stdin};
pub use made::{null_is_absent, of, of_plugin};
pub use paths::{expect_every_key, in_schema, in_value};

/// Writes a shipped schema anew where it is set.
const UPDATE: &str = "UPDATE_SCHEMA";

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/schema");
    folder.join(format!("{name}.schema.json"))
}

/// Expects that `conf/schema/NAME.schema.json` is that schema; with `UPDATE_SCHEMA` in the
/// environment, makes it so.
///
/// # Panics
/// It is not.
#[track_caller]
pub fn expect_shipped(name: &str, schema: &Value) {
    // Written as what it is, its keywords have an order for people.
    let schema: &Schema = schema.try_into().unwrap();
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    let file = path(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&file, &text).unwrap();
    }
    let shipped = fs::read_to_string(&file).unwrap_or_default();
    let same = shipped.lines().zip(text.lines());
    let same = same.take_while(|(shipped, text)| shipped == text).count();
    assert!(
        shipped == text,
        "conf/schema/{name}.schema.json is not what the types say from line {} on: `make schema` \
         writes it anew",
        same + 1
    );
}

/// A shipped schema.
///
/// # Panics
/// There is none of that name.
#[track_caller]
pub fn shipped(name: &str) -> Value {
    let file = path(name);
    let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).unwrap()
}

/// What tells whether a value is as a schema says. The other schemas that it names by their files
/// are those that are shipped.
///
/// # Panics
/// The schema is none.
#[track_caller]
pub fn validator(schema: &Value) -> Validator {
    let options = jsonschema::options().with_retriever(Folder);
    let options = options.with_base_uri("file:///");
    options.build(schema).unwrap()
}

/// What a schema has against a value, each with its place; none where the value is as it says.
#[track_caller]
pub fn flaws(schema: &Value, value: &Value) -> Vec<String> {
    let validator = validator(schema);
    let flaws = validator.iter_errors(value);
    flaws
        .map(|flaw| format!("{}: {flaw}", flaw.instance_path()))
        .collect()
}

/// Finds a schema that another names, as an editor does: by its file in the same folder.
struct Folder;

impl Retrieve for Folder {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let file = uri.path().as_str().trim_start_matches('/');
        let folder = path("x");
        let text = fs::read(folder.with_file_name(file))?;
        Ok(serde_json::from_slice(&text)?)
    }
}
