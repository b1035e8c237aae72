//! A host port as the command line says it.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Serialize;

/// One entry of the capability `portMappings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    host_port: u16,
    container_port: u16,
    protocol: &'static str,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    host_ip: Option<IpAddr>,
}

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// `[HOSTIP:]HOSTPORT:CONTAINERPORT[/PROTOCOL]`, an IPv6 address in brackets.
impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        let (ports, protocol) = text.rsplit_once('/').unwrap_or((text, "tcp"));
        let protocol = PROTOCOLS
            .into_iter()
            .find(|known| *known == protocol)
            .ok_or_else(|| format!("protocol {protocol:?} is none of {}", PROTOCOLS.join(", ")))?;
        let (rest, container_port) = ports
            .rsplit_once(':')
            .ok_or("expected [HOSTIP:]HOSTPORT:CONTAINERPORT[/PROTOCOL]")?;
        let (host_ip, host_port) = match rest.rsplit_once(':') {
            Some((address, port)) => (Some(self::address(address)?), port),
            None => (None, rest),
        };
        Ok(Port {
            host_port: port(host_port)?,
            container_port: port(container_port)?,
            protocol,
            host_ip,
        })
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| format!("port {text:?} is no number from 1 to 65535"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    let in_brackets = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match in_brackets {
        Some(inner) => inner.parse().map(IpAddr::V6).ok(),
        None => text.parse().map(IpAddr::V4).ok(),
    }
    .ok_or_else(|| format!("host address {text:?} is no IPv4 address and no [IPv6] address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, expected) in [
            (
                "8080:80",
                r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"}"#,
            ),
            (
                "53:5353/udp",
                r#"{"hostPort":53,"containerPort":5353,"protocol":"udp"}"#,
            ),
            (
                "1:65535/sctp",
                r#"{"hostPort":1,"containerPort":65535,"protocol":"sctp"}"#,
            ),
            (
                "127.0.0.1:8080:80/tcp",
                r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"127.0.0.1"}"#,
            ),
            (
                "[fd00::1]:8080:80",
                r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"fd00::1"}"#,
            ),
        ] {
            let port: Port = text.parse().unwrap();
            assert_eq!(serde_json::to_string(&port).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn refusals() {
        for (text, expected) in [
            ("", "expected [HOSTIP:]HOSTPORT:CONTAINERPORT[/PROTOCOL]"),
            ("80", "expected [HOSTIP:]HOSTPORT:CONTAINERPORT[/PROTOCOL]"),
            ("80:80/TCP", "protocol \"TCP\" is none of tcp, udp, sctp"),
            ("80:80/", "protocol \"\" is none of tcp, udp, sctp"),
            ("0:80", "port \"0\" is no number from 1 to 65535"),
            ("80:65536", "port \"65536\" is no number from 1 to 65535"),
            (":80", "port \"\" is no number from 1 to 65535"),
            (
                "fd00::1:80:80",
                "host address \"fd00::1\" is no IPv4 address and no [IPv6] address",
            ),
            (
                "[127.0.0.1]:80:80",
                "host address \"[127.0.0.1]\" is no IPv4 address and no [IPv6] address",
            ),
        ] {
            assert_eq!(text.parse::<Port>(), Err(expected.to_owned()), "{text}");
        }
    }
}
