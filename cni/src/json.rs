//! Reading JSON as the field's other programs do: at every depth keys match without regard to
//! case, the last of a repeated one wins, and `null` counts as absent.
//!
//! Structs need nothing for that but plain serde derives, with three limits: a `flatten`ed or
//! `untagged` part is matched with regard to case, and so are the keys of a map.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

/// How many unreadable values [`read_tolerant`] leaves out before it gives up.
const MAX_LEFT_OUT: usize = 256;

/// Parses a whole document. Trailing characters and more than 128 levels are errors.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Tree>(bytes).map(|tree| tree.0)
}

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) struct Mismatch {
    /// Where, as `ipam.ranges[0][0].subnet`; `.` is the whole.
    pub path: String,
    /// What was found and what was expected.
    pub reason: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path != "." {
            write!(f, "cannot read \"{}\": ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

/// Reads `value` as a `T`.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Mismatch> {
    serde_path_to_error::deserialize(Folded(value)).map_err(|error| {
        let reason = error.inner().to_string();
        // What a type's own parser refuses is often not in its message.
        let value = find(value, error.path())
            .and_then(Value::as_str)
            .map(|text| format!("{text:?}"))
            .filter(|text| !reason.contains(text.as_str()));
        Mismatch {
            path: error.path().to_string(),
            reason: value.map_or(reason.clone(), |value| format!("{value}: {reason}")),
        }
    })
}

/// Reads `value` as a `T`, leaving out whatever cannot be read.
pub(crate) fn read_tolerant<T: DeserializeOwned + Default>(value: &Value) -> T {
    let mut value = value.clone();
    for _ in 0..MAX_LEFT_OUT {
        match serde_path_to_error::deserialize(Folded(&value)) {
            Ok(read) => return read,
            Err(error) => match find_mut(&mut value, error.path()) {
                Some(bad) if !bad.is_null() => *bad = Value::Null,
                _ => break,
            },
        }
    }
    T::default()
}

/// The value of `key` in an object, found as [`read`] finds it.
pub(crate) fn get<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    get_in(value.as_object()?, key)
}

/// As [`get`].
pub(crate) fn get_in<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    present(object)
        .filter(|(name, _)| name.eq_ignore_ascii_case(key))
        .last()
        .map(|(_, value)| value)
}

fn get_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    value
        .as_object_mut()?
        .iter_mut()
        .filter(|(name, value)| !value.is_null() && name.eq_ignore_ascii_case(key))
        .last()
        .map(|(_, value)| value)
}

/// The value's text over several lines, indented with four spaces as other plugins print it, and
/// without a line feed at the end.
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => value.to_string(),
    }
}

/// The innermost value of `path` that exists.
fn find<'a>(value: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => get(value, key),
        Segment::Seq { index } => items(value.as_array()?).nth(*index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

fn find_mut<'a>(value: &'a mut Value, path: &Path) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => get_mut(value, key),
        Segment::Seq { index } => value
            .as_array_mut()?
            .iter_mut()
            .filter(|item| !item.is_null())
            .nth(*index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

fn present(object: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.as_str(), value))
}

fn items(array: &[Value]) -> impl Iterator<Item = &Value> {
    array.iter().filter(|item| !item.is_null())
}

/// Deserializes a value by the rules of this module.
#[derive(Clone, Copy)]
struct Folded<'de>(&'de Value);

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
            Value::Object(object) => object,
            // A derived struct would also take an array, field by field.
            Value::Array(_) => return Err(Self::Error::invalid_type(Unexpected::Seq, &visitor)),
            scalar => return scalar.deserialize_any(visitor),
        };
        let mut found = vec![None; fields.len()];
        for (key, value) in present(object) {
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

/// A [`Value`] in which a repeated key stands where it stood last, with its last value that is
/// not `null`.
struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Tree)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Tree(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::<(String, Value)>::new();
        while let Some((key, Tree(value))) = map.next_entry()? {
            entries.push((key, value));
        }
        // Newest first, so that what is there already wins, without moving entries about.
        let mut newest_first = Map::new();
        for (key, value) in entries.into_iter().rev() {
            let kept = newest_first.entry(key).or_insert(Value::Null);
            if kept.is_null() {
                *kept = value;
            }
        }
        Ok(newest_first.into_iter().rev().collect::<Map<_, _>>().into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Conf {
        is_gateway: bool,
        mtu: u32,
        name: String,
        inner: Inner,
        list: Vec<Vec<Inner>>,
        optional: Option<i64>,
        map: BTreeMap<String, bool>,
        any: Value,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Inner {
        subnet: Option<ipnet::IpNet>,
        port: u16,
    }

    fn conf(text: &str) -> Result<Conf, String> {
        let value = parse(text.as_bytes()).map_err(|e| e.to_string())?;
        read(&value).map_err(|e| e.to_string())
    }

    #[test]
    fn keys_match_without_case_and_the_last_wins() {
        for (text, mtu) in [
            (r#"{"mtu": 1}"#, 1),
            (r#"{"MTU": 1}"#, 1),
            (r#"{"mtu": 1, "Mtu": 2}"#, 2),
            (r#"{"Mtu": 2, "mtu": 1}"#, 1),
            (r#"{"mtu": 1, "mtu": 2}"#, 2),
            (r#"{"mtu": 1, "MTU": 2, "mtu": 3}"#, 3),
            (r#"{"mtu": 1, "mtu": null}"#, 1),
            (r#"{"mtu": 1, "MTU": null}"#, 1),
            (r#"{"mtu": null}"#, 0),
            (r#"{"mtu": "x", "mtu": 4}"#, 4),
            (r#"{"other": {"a": [1]}}"#, 0),
        ] {
            assert_eq!(conf(text).map(|c| c.mtu), Ok(mtu), "{text}");
        }
    }

    #[test]
    fn at_every_depth() {
        let text = r#"{"ISGATEWAY": true, "List": [[{"PORT": 1}, null], null, [{"pOrt": 2}]],
            "INNER": {"Subnet": "10.0.0.1/8"}, "Optional": -3, "map": {"A": true, "a": false},
            "any": {"K": 1}}"#;
        let expected = Conf {
            is_gateway: true,
            list: vec![
                vec![Inner {
                    port: 1,
                    subnet: None,
                }],
                vec![Inner {
                    port: 2,
                    subnet: None,
                }],
            ],
            inner: Inner {
                subnet: Some("10.0.0.1/8".parse().unwrap()),
                port: 0,
            },
            optional: Some(-3),
            map: [("A".to_owned(), true), ("a".to_owned(), false)].into(),
            any: json!({"K": 1}),
            ..Conf::default()
        };
        assert_eq!(conf(text), Ok(expected));
    }

    #[test]
    fn errors_name_path_value_and_what_is_allowed() {
        for (text, expected) in [
            (
                r#"{"list": [[{}, {"port": "x"}]]}"#,
                "cannot read \"list[0][1].port\": invalid type: string \"x\", expected u16",
            ),
            (
                r#"{"Mtu": 1.0}"#,
                "cannot read \"mtu\": invalid type: floating point `1.0`, expected u32",
            ),
            (
                r#"{"mtu": -1}"#,
                "cannot read \"mtu\": invalid value: integer `-1`, expected u32",
            ),
            (
                r#"{"mtu": 4294967296}"#,
                "cannot read \"mtu\": invalid value: integer `4294967296`, expected u32",
            ),
            (
                r#"{"inner": {"subnet": "10.0.0.0/99"}}"#,
                "cannot read \"inner.subnet\": \"10.0.0.0/99\": invalid IP address syntax",
            ),
            (
                r#"{"inner": [1]}"#,
                "cannot read \"inner\": invalid type: sequence, expected struct Inner",
            ),
            ("[]", "invalid type: sequence, expected struct Conf"),
            ("5", "invalid type: integer `5`, expected struct Conf"),
        ] {
            assert_eq!(conf(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_document() {
        for text in [
            "",
            "{",
            "{} x",
            "{}{}",
            "{'a': 1}",
            "{\"a\": 01}",
            "nul",
            "\u{feff}{}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"{\"a\": \"\xff\"}").is_err());
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(parse(deep.as_bytes()).is_ok());
    }

    #[test]
    fn tolerance_leaves_out_only_what_cannot_be_read() {
        let cases = [
            (json!({"mtu": "x", "name": "n"}), "n", 0),
            (
                json!({"name": "n", "inner": {"subnet": 5, "port": 7}}),
                "n",
                7,
            ),
            (
                json!({"name": "n", "inner": [], "MTU": {}, "list": 5}),
                "n",
                0,
            ),
            (json!({"name": "n", "Name": 5}), "n", 0),
            (json!([]), "", 0),
            (json!(null), "", 0),
        ];
        for (value, name, port) in cases {
            let conf: Conf = read_tolerant(&value);
            assert_eq!(
                (conf.name.as_str(), conf.inner.port),
                (name, port),
                "{value}"
            );
        }
        let value = json!({"list": [null, [{"port": 1}, {"port": "x", "subnet": "::/64"}, 5]]});
        let conf: Conf = read_tolerant(&value);
        let subnet = Some("::/64".parse().unwrap());
        let expected = vec![vec![
            Inner {
                port: 1,
                subnet: None,
            },
            Inner { port: 0, subnet },
        ]];
        assert_eq!(conf.list, expected);
    }

    #[test]
    fn values_keep_their_keys_and_order() {
        let value = parse(br#"{"b": 1, "A": {"z": 1, "y": 2}, "b": 3, "a": [1.5, null, -2]}"#);
        assert_eq!(
            value.unwrap().to_string(),
            r#"{"A":{"z":1,"y":2},"b":3,"a":[1.5,null,-2]}"#
        );
    }
}
