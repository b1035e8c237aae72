//! A result in any version: what is read of it is the same after it was told and read again.

#![no_main]

use cni::{AddResult, Version};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice(bytes) else {
        return;
    };
    for text in [
        "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
    ] {
        let version = Version::parse(text).unwrap();
        let Ok(result) = AddResult::from_json(&value, version) else {
            continue;
        };
        // Not every version can tell all of it.
        let Ok(told) = result.to_json(version) else {
            continue;
        };
        let again = AddResult::from_json(&told, version).unwrap();
        assert_eq!(again.to_json(version).unwrap(), told, "{text}");
    }
});
