//! Echo requests and replies of ICMP (RFC 792) and ICMPv6 (RFC 4443).

/// One echo request, known again in its reply by its identifier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo {
    ipv6: bool,
    identifier: [u8; 2],
}

impl Echo {
    /// The low half of `identifier` travels.
    pub(crate) fn new(ipv6: bool, identifier: u32) -> Echo {
        let [_, _, high, low] = identifier.to_be_bytes();
        Echo {
            ipv6,
            identifier: [high, low],
        }
    }

    /// The request. The kernel fills in the checksum of ICMPv6, which covers addresses.
    pub(crate) fn request(&self) -> [u8; 8] {
        let [high, low] = self.identifier;
        if self.ipv6 {
            return [128, 0, 0, 0, high, low, 0, 1];
        }
        let [sum_high, sum_low] = checksum(&[8, 0, 0, 0, high, low, 0, 1]);
        [8, 0, sum_high, sum_low, high, low, 0, 1]
    }

    /// Whether what a raw socket received is the reply. For IPv4 it comes with its IP header.
    pub(crate) fn is_answered_by(&self, packet: &[u8]) -> bool {
        let header = match packet.first() {
            Some(first) if !self.ipv6 => usize::from(first & 0x0f) * 4,
            _ => 0,
        };
        let reply = if self.ipv6 { 129 } else { 0 };
        match packet.get(header..) {
            Some([kind, 0, _, _, identifier @ .., 0, 1]) => {
                *kind == reply && identifier == self.identifier
            }
            _ => false,
        }
    }
}

/// The internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes
        .chunks_exact(2)
        .map(|pair| {
            pair.iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        })
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = (!folded).to_be_bytes();
    [high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_request_carries_its_checksum() {
        let request = Echo::new(false, 0x1_1234).request();
        assert_eq!(request, [8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1]);
        assert_eq!(checksum(&request), [0, 0], "a right sum verifies to zero");
    }

    #[test]
    fn only_its_own_reply_answers_an_echo() {
        let echo = Echo::new(false, 0x1234);
        let mut packet = vec![0x45; 20];
        packet.extend([0, 0, 0, 0, 0x12, 0x34, 0, 1]);
        assert!(echo.is_answered_by(&packet));
        assert!(!Echo::new(false, 0x1235).is_answered_by(&packet));
        packet[20] = 8;
        assert!(!echo.is_answered_by(&packet), "a request is no reply");
        assert!(!echo.is_answered_by(&packet[..24]));
        assert!(!echo.is_answered_by(&[]));
        assert!(Echo::new(true, 0x1234).is_answered_by(&[129, 0, 9, 9, 0x12, 0x34, 0, 1]));
    }
}
