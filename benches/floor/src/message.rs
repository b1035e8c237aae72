//! Netlink messages, packed one behind the other to be sent at once (linux/netlink.h).

/// `NLM_F_REQUEST`, which all have.
const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`.
const ACK: u16 = 0x4;
/// `NLM_F_EXCL | NLM_F_CREATE`: it must be new.
pub const NEW: u16 = 0x200 | 0x400;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// Lengths of `struct nlmsghdr` and `struct nlattr`.
const MESSAGE_HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// Messages for one send. The kernel works through them in order, up to the first that it refuses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where the message that is acknowledged begins.
    acknowledged: Option<usize>,
    count: u32,
}

/// Attributes of one message.
#[derive(Debug)]
pub struct Attributes<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Batch {
    /// One message more: its type, its flags beside those that all have, its fixed header and its
    /// attributes.
    #[must_use]
    pub fn with(
        mut self,
        kind: u16,
        flags: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Attributes),
    ) -> Batch {
        let start = self.bytes.len();
        self.count += 1;
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((REQUEST | flags).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(header);
        let mut attributes = Attributes {
            bytes: &mut self.bytes,
        };
        fill(&mut attributes);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        put(&mut self.bytes, start, &length.to_ne_bytes());
        pad(&mut self.bytes);
        self
    }

    /// Has the last message acknowledged: with it all before are done.
    #[must_use]
    pub fn acknowledged(mut self) -> Batch {
        let mut last = 0;
        let mut next = 0;
        while let Some(length) = number(&self.bytes, next) {
            last = next;
            next += align(length as usize).max(MESSAGE_HEADER);
        }
        if let Some(flags) = self.bytes.get_mut(last + 6) {
            *flags |= ACK.to_ne_bytes()[0];
        }
        self.acknowledged = Some(last);
        self
    }

    /// As they are sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The sequence number of the message that is acknowledged.
    pub fn awaited(&self) -> Option<u32> {
        number(&self.bytes, self.acknowledged? + 8)
    }
}

impl Attributes<'_> {
    /// An attribute.
    pub fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.fill(kind, |attributes| attributes.bytes.extend(value))
    }

    /// A number in the machine's byte order.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// A text with its NUL.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Attributes within an attribute.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) -> &mut Self {
        self.nest_behind(kind, &[], fill)
    }

    /// As [`Attributes::nest`], behind a header.
    pub fn nest_behind(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Attributes),
    ) -> &mut Self {
        self.fill(NESTED | kind, |attributes| {
            attributes.bytes.extend(header);
            fill(attributes);
        })
    }

    fn fill(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        debug_assert!(usize::from(length) >= ATTRIBUTE_HEADER);
        put(self.bytes, start, &length.to_ne_bytes());
        pad(self.bytes);
        self
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    let place = bytes.iter_mut().skip(at);
    place.zip(value).for_each(|(byte, value)| *byte = *value);
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(align(bytes.len()), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    // The bytes are those of a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn messages_and_attributes_are_padded() {
        let batch = Batch::default()
            .with(16, NEW, &[9; 4], |attributes| {
                attributes.text(3, "ab").nest(18, |inner| {
                    inner.number(1, 7);
                });
            })
            .with(17, 0, &[], |_| {});
        let expected = [
            [40, 0, 0, 0, 16, 0, 0x01, 0x06].as_slice(),
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[9, 9, 9, 9],
            &[7, 0, 3, 0, b'a', b'b', 0, 0],
            &[12, 0, 18, 0x80, 8, 0, 1, 0, 7, 0, 0, 0],
            &[16, 0, 0, 0, 17, 0, 0x01, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(batch.bytes(), expected.concat());
        assert_eq!(batch.awaited(), None);
        let acknowledged = batch.acknowledged();
        assert_eq!(acknowledged.bytes()[46], 0x05);
        assert_eq!(acknowledged.awaited(), Some(2));
    }
}
