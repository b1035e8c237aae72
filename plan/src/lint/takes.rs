//! Values that the plugin that reads them refuses: with one, every ADD fails.

use std::fmt;
use std::net::IpAddr;

use cni::runtime::NetworkList;
use ipnet::IpNet;
use serde_json::Value;

use super::keys::{Known, entry_of, get, known_in};

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Whatever is written.
    Any,
    /// `true` or `false`.
    Flag,
    /// A text.
    Text,
    /// A text of at most so many bytes.
    Name(usize),
    /// One of these, or an empty text.
    Words(&'static [&'static str]),
    /// A whole number of one of these ranges, ends included.
    Number(&'static [(i64, i64)]),
    /// A subnet of which host-local can give addresses.
    Net,
    /// An address.
    Address,
    /// A list of texts.
    Texts,
    /// An object.
    Object,
    /// A list of objects.
    Objects,
    /// A list of lists of objects.
    Ranges,
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Takes::Any => f.write_str("anything"),
            Takes::Flag => f.write_str("true or false, without quotes"),
            Takes::Text => f.write_str("a text"),
            Takes::Name(most) => write!(f, "a text of at most {most} bytes"),
            Takes::Words(words) => f.write_str(&words.join(" or ")),
            Takes::Number(ranges) => {
                let range = |(first, last): &(i64, i64)| match first == last {
                    true => first.to_string(),
                    false => format!("{first} to {last}"),
                };
                let ranges: Vec<_> = ranges.iter().map(range).collect();
                write!(f, "a whole number, {}", ranges.join(" or "))
            }
            Takes::Net => f.write_str("a network, as 10.1.0.0/24"),
            Takes::Address => f.write_str("an address, as 10.1.0.1"),
            Takes::Texts => f.write_str("a list of texts"),
            Takes::Object => f.write_str("an object"),
            Takes::Objects => f.write_str("a list of objects"),
            Takes::Ranges => f.write_str("a list of lists of objects"),
        }
    }
}

impl Takes {
    /// Whether it takes a value that is not `null`.
    pub(super) fn accepts(self, value: &Value) -> bool {
        let text = value.as_str();
        // Of a list what is `null` is absent, too.
        let items = value.as_array();
        let all = |is: fn(&Value) -> bool| {
            items.is_some_and(|items| items.iter().all(|item| item.is_null() || is(item)))
        };
        match self {
            Takes::Any => true,
            Takes::Flag => value.is_boolean(),
            Takes::Text => text.is_some(),
            Takes::Name(most) => text.is_some_and(|text| text.len() <= most),
            Takes::Words(words) => {
                text.is_some_and(|text| text.is_empty() || words.contains(&text))
            }
            Takes::Number(ranges) => value.as_i64().is_some_and(|number| {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&number))
            }),
            Takes::Net => text.is_some_and(|text| text.parse::<IpNet>().is_ok()),
            Takes::Address => text.is_some_and(|text| text.parse::<IpAddr>().is_ok()),
            Takes::Texts => all(Value::is_string),
            Takes::Object => value.is_object(),
            Takes::Objects => all(Value::is_object),
            Takes::Ranges => all(|set| Takes::Objects.accepts(set)),
        }
    }
}

/// A value that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The path of its key.
    pub key: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)
    }
}

/// The values of a list that the plugins which read them refuse, as far as that can be told from the
/// values alone. Of plugins that the project does not have only the types are looked at.
pub fn refused(list: &NetworkList) -> Vec<Refused> {
    let Ok(value) = serde_json::from_slice::<Value>(&list.raw) else {
        // Text before or behind it, which readers of lists pass over as well as they can.
        return Vec::new();
    };
    let mut found = types(&value);
    for known in known_in(&value) {
        found.extend(values(&known));
        found.extend(subnet(&known));
    }
    found
}

/// Types that name no program.
fn types(list: &Value) -> Vec<Refused> {
    let plugins = get(list, "plugins").and_then(Value::as_array);
    let plugins: Vec<(String, &Value)> = match plugins {
        None => vec![(String::new(), list)],
        Some(plugins) => {
            let plugins = plugins.iter().enumerate();
            plugins
                .map(|(index, plugin)| (format!("plugins[{index}]."), plugin))
                .collect()
        }
    };
    let ipams = plugins
        .iter()
        .filter_map(|(prefix, plugin)| Some((format!("{prefix}ipam."), get(plugin, "ipam")?)));
    let all: Vec<(String, &Value)> = plugins.iter().cloned().chain(ipams).collect();
    let odd = all.into_iter().filter_map(|(prefix, value)| {
        let kind = get(value, "type")?.as_str()?;
        kind.contains(['/', '\0']).then(|| Refused {
            key: format!("{prefix}type"),
            reason: format!(
                "{kind:?} is no name of a plugin: expected a file's name, without \"/\""
            ),
        })
    });
    odd.collect()
}

fn values(known: &Known) -> Vec<Refused> {
    let keys = known.keys.iter().copied().flatten();
    let wrong = keys.filter_map(|(key, takes)| {
        let (written, value) = entry_of(known.object, key)?;
        (!value.is_null() && !takes.accepts(value)).then(|| Refused {
            key: format!("{}{written}", known.prefix),
            reason: format!("the plugin refuses {value}: expected {takes}"),
        })
    });
    wrong.collect()
}

/// A subnet of which host-local gives no addresses.
fn subnet(known: &Known) -> Option<Refused> {
    let takes_nets = known
        .keys
        .iter()
        .copied()
        .flatten()
        .any(|(_, takes)| *takes == Takes::Net);
    let (written, value) = entry_of(known.object, "subnet").filter(|_| takes_nets)?;
    let net: IpNet = value.as_str()?.parse().ok()?;
    let reason = if net.trunc() != net {
        format!("host bits are set in {net}: expected {}", net.trunc())
    } else if net.max_prefix_len().saturating_sub(net.prefix_len()) < 2 {
        format!("{net} is too small to give addresses")
    } else {
        return None;
    };
    Some(Refused {
        key: format!("{}{written}", known.prefix),
        reason,
    })
}
