//! The JSON Schema of the configuration: the keys that every plugin has.

/// The plugin has no keys of its own.
#[derive(schemars::JsonSchema)]
#[schemars(title = "loopback")]
#[allow(dead_code, reason = "read by nobody, only described")]
struct Keys {}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    let made = schemas::of_plugin::<Keys>(Vec::new());
    schemas::expect_shipped("loopback", &made);
}
