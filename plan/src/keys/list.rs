//! One value or several.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IntoDeserializer, SeqAccess, Visitor};

/// One value or several: written as one, as a list, or as one text with commas, as kubeadm writes
/// the two ranges of a dual-stack cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        deserializer.deserialize_any(OneOrMany(PhantomData))
    }
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value or a list")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<List<T>, E> {
        let parts = text.split(',').map(str::trim);
        let read = |part: &str| T::deserialize(part.into_deserializer());
        parts.map(read).collect::<Result<_, _>>().map(List)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<List<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| List(vec![one]))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<List<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| List(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(List(list))
    }
}
