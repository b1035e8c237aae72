//! A list of configurations.

#![no_main]

use cni::runtime::NetworkList;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(list) = NetworkList::parse(bytes.to_vec()) {
        assert!(!list.kinds().is_empty());
        list.misnamed(std::path::Path::new("/etc/cni/net.d/10-net.conflist"));
    }
});
