//! Deserializing a value without regard to the case of its keys.

use std::convert::Infallible;
use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{IntoDeserializer, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::Value;

use super::{items, present};

/// Deserializes a value by the rules of this module.
#[derive(Clone, Copy)]
pub(super) struct Folded<'de>(pub(super) &'de Value);

impl<'de> IntoDeserializer<'de, serde_json::Error> for Folded<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Folded<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(array) => {
                let mut items = SeqDeserializer::new(items(array).map(Folded));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(object) => visitor.visit_map(MapDeserializer::new(
                present(object).map(|(key, value)| (key, Folded(value))),
            )),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let object = match self.0 {
            Value::Object(object) => Some(object),
            Value::Null => None,
            // A derived struct would also take an array, field by field.
            other => return other.deserialize_any(Object).map(|never| match never {}),
        };
        let mut found = vec![None; fields.len()];
        for (key, value) in object.into_iter().flat_map(present) {
            let matching = fields.iter().zip(&mut found);
            for (_, slot) in matching.filter(|(field, _)| field.eq_ignore_ascii_case(key)) {
                *slot = Some(Folded(value));
            }
        }
        let entries = fields.iter().zip(found);
        visitor.visit_map(MapDeserializer::new(
            entries.filter_map(|(field, value)| Some((*field, value?))),
        ))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier
    }
}

/// Takes nothing, and says what would have been right.
struct Object;

impl Visitor<'_> for Object {
    type Value = Infallible;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}
