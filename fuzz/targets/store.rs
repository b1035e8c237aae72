//! Files of a store: each is a name, a line feed and its content, a byte 0xfe between them. Whoever asks is told, nobody's address is taken, and what DEL is told to free is his.

#![no_main]
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use cni::Attachment;
use host_local_lite::store::Store;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for file in bytes.split(|byte| *byte == 0xfe) {
        let mut parts = file.splitn(2, |byte| *byte == b'\n');
        let name = parts.next().unwrap_or_default();
        let content = parts.next().unwrap_or_default();
        if !name.contains(&b'/') {
            let name = std::ffi::OsStr::from_bytes(name);
            drop(std::fs::write(folder.path().join(Path::new(name)), content));
        }
    }
    let store = Store::open(folder.path()).unwrap().unwrap();
    let attachment = Attachment::new("net", "pod", "eth0");
    let seen = store.reservations(&attachment).unwrap();
    for one in seen.held.to_release() {
        assert!(
            store.holds(&attachment, one.ip) || one.ip.is_ipv6(),
            "{one:?}"
        );
    }
    store.names().unwrap();
    drop(store.garbage("net", &[attachment.clone()].into()).unwrap());
    let Ok(Some(mut locked)) = store.lock(Duration::ZERO) else {
        return;
    };
    let _ = locked.last(0);
    let (held, taken) = locked.look(&attachment).unwrap();
    let free = (1..=255).map(|last| [10, 1, 0, last].into());
    let free = free.filter(|ip| !taken.contains(*ip)).take(1);
    let free: Vec<std::net::IpAddr> = free.collect();
    if locked.reserve_all(&attachment, &held, &free).is_ok() {
        for ip in &free {
            assert!(store.holds(&attachment, *ip));
        }
    }
    let (held, _) = locked.look(&attachment).unwrap();
    locked.release_all(&attachment, &held).unwrap();
});
