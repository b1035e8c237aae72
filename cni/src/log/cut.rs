//! Values as far as a line has room for them.

use serde_json::{Map, Value};

/// What a number, or the brackets around a list or an object, take of the room, in characters.
const LITTLE: usize = 4;

/// As much of a value as about `room` characters hold, in its own order. Where something is left
/// out, that is said, and how much.
pub(super) fn cut(value: &Value, mut room: usize) -> Value {
    within(value, &mut room)
}

fn within(value: &Value, room: &mut usize) -> Value {
    if let Value::String(text) = value {
        return shortened(text, room).into();
    }
    *room = room.saturating_sub(LITTLE);
    match value {
        Value::Array(items) => list(items, room),
        Value::Object(entries) => object(entries, room),
        other => other.clone(),
    }
}

fn list(items: &[Value], room: &mut usize) -> Value {
    let mut kept = Vec::new();
    for item in items {
        if *room == 0 {
            break;
        }
        kept.push(within(item, room));
    }
    if kept.len() < items.len() {
        kept.push(more(items.len() - kept.len()).into());
    }
    kept.into()
}

fn object(entries: &Map<String, Value>, room: &mut usize) -> Value {
    let mut kept = Map::new();
    for (count, (key, value)) in entries.iter().enumerate() {
        if *room == 0 {
            kept.insert("…".to_owned(), more(entries.len() - count).into());
            break;
        }
        let key = shortened(key, room);
        let value = within(value, room);
        kept.insert(key, value);
    }
    kept.into()
}

fn more(count: usize) -> String {
    format!("{count} more")
}

fn shortened(text: &str, room: &mut usize) -> String {
    let length = text.chars().count();
    let kept = length.min(*room);
    *room = room.saturating_sub(length.max(LITTLE));
    if kept == length {
        return text.to_owned();
    }
    let text: String = text.chars().take(kept).collect();
    format!("{text}… {} more", length - kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_room_is_kept_as_it_is() {
        let value = json!({
            "b": [1, null, true, "text", {}],
            "a": { "nested": [[], "é"] }
        });
        assert_eq!(cut(&value, 100).to_string(), value.to_string());
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let ports: Vec<u16> = (1..=100).collect();
        for (value, room, expected) in [
            (json!("abcdef"), 4, json!("abcd… 2 more")),
            (json!("éééééé"), 4, json!("éééé… 2 more")),
            (json!(ports), 16, json!([1, 2, 3, "97 more"])),
            (
                json!({ "ports": ports, "b": 1, "c": 2 }),
                16,
                json!({ "ports": [1, "99 more"], "…": "2 more" }),
            ),
            (
                json!({ "key": "text" }),
                6,
                json!({ "ke… 1 more": "… 4 more" }),
            ),
        ] {
            assert_eq!(cut(&value, room), expected, "{value}");
        }
    }

    #[test]
    fn nothing_grows_beyond_its_room() {
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner, "text"]));
        let wide: Vec<_> = (0..100_000)
            .map(|i| json!({ i.to_string(): [[], ""] }))
            .collect();
        let long = "x".repeat(1_000_000);
        for value in [deep, json!(wide), json!({ &long: &long, "b": [long] })] {
            let length = cut(&value, 1000).to_string().len();
            assert!(length < 4000, "{length}");
        }
    }
}
