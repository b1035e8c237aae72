//! A configuration, as every plugin and host-local read it.

#![no_main]
mod request;

use host_local_lite::config::{self, Settings};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(request) = request::add(bytes) else {
        return;
    };
    drop(request.config.prev_result_tolerant());
    drop(request.valid_attachments());
    drop(config::store_path(&request.config));
    let Ok(settings) = Settings::read(&request) else {
        return;
    };
    for set in &settings.sets {
        let first = set.turn(None).next();
        assert!(first.is_some_and(|(ip, range)| range.contains(ip)));
    }
});
