//! Where a packet is to go.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use firewall::hostport::Protocol;

/// Where a packet is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The address.
    pub address: IpAddr,
    /// The port, where one is meant.
    pub port: Option<u16>,
    /// What is spoken there.
    pub protocol: Protocol,
}

/// `IP[:PORT[/PROTOCOL]]`, an IPv6 address with a port in brackets.
impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        let (place, protocol) = match text.rsplit_once('/') {
            Some((place, name)) => {
                let protocol = Protocol::parse(name)
                    .ok_or_else(|| format!("protocol {name:?} is none of tcp, udp, sctp"))?;
                (place, protocol)
            }
            None => (text, Protocol::Tcp),
        };
        let (address, port) = match (place.parse::<IpAddr>(), place.parse::<SocketAddr>()) {
            (Ok(address), _) if place == text => (address, None),
            (_, Ok(at)) if at.port() != 0 => (at.ip(), Some(at.port())),
            _ => {
                return Err(format!(
                    "{text:?}: expected IP, IP:PORT or IP:PORT/PROTOCOL, an IPv6 address with a port \
                     in brackets, and a port from 1 to 65535"
                ));
            }
        };
        Ok(Destination {
            address,
            port,
            protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ports_and_protocols() {
        for (text, address, port, protocol) in [
            ("10.1.0.2", "10.1.0.2", None, Protocol::Tcp),
            ("10.1.0.2:80", "10.1.0.2", Some(80), Protocol::Tcp),
            ("10.1.0.2:53/udp", "10.1.0.2", Some(53), Protocol::Udp),
            ("fd00::2", "fd00::2", None, Protocol::Tcp),
            ("[fd00::2]:80", "fd00::2", Some(80), Protocol::Tcp),
        ] {
            let destination = Destination {
                address: address.parse().unwrap(),
                port,
                protocol,
            };
            assert_eq!(text.parse(), Ok(destination), "{text}");
        }
        for text in [
            "",
            "a",
            "10.1.0.2:",
            "10.1.0.2:0",
            "10.1.0.2:99999",
            "10.1.0.2/tcp",
            "10.1.0.0/24",
            "[fd00::2]",
            "10.1.0.2:53/x",
            "10.1.0.2:80/",
        ] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }
}
