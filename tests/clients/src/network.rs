//! Networks of the plugins under test, and what is asked of pods there.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

use lab::{DEADLINE, Namespace};
use serde_json::{Value, json};

use crate::{Names, patiently};

/// The network `pods`: the whole chain, with addresses of 10.244.0.0/24 on the bridge `cni0`.
pub fn chain(names: Names, version: &str) -> Value {
    json!({
        "cniVersion": version, "name": "pods",
        "plugins": [
            {
                "type": names.of("bridge"), "bridge": "cni0", "isGateway": true, "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": names.of("host-local"), "subnet": "10.244.0.0/24",
                    "routes": [{ "dst": "0.0.0.0/0" }]
                }
            },
            { "type": names.of("portmap"), "capabilities": { "portMappings": true } },
            { "type": names.of("bandwidth"), "capabilities": { "bandwidth": true } }
        ]
    })
}

/// Has the page of [`crate::SERVER`] from there, by HTTP. A container's server may take its time to
/// start.
///
/// # Panics
/// It is not had within a minute.
#[track_caller]
pub fn fetch(from: &Namespace, server: SocketAddr) {
    patiently(|| {
        let page = from.run(|| get(server)).unwrap();
        match page {
            Ok(page) if page.ends_with("\r\n\r\nserved\n") => Ok(()),
            other => Err(format!("http://{server}/ from {}: {other:?}", from.name())),
        }
    });
}

fn get(server: SocketAddr) -> io::Result<String> {
    let mut server = TcpStream::connect_timeout(&server, DEADLINE)?;
    server.set_read_timeout(Some(DEADLINE))?;
    server.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    io::read_to_string(server)
}
