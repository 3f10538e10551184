//! Names and values of fields as services spell them: the reading of responses, lists and reports
//! looks them up here.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::{Map, Value};

use crate::words::WORDS;

pub(crate) type Fields = Map<String, Value>;

/// A name without case, separators and namespace: `signingSecret`, `signing_secret`,
/// `SigningSecret` and `ex:signingSecret` are the same name.
pub(crate) fn plain(name: &str) -> String {
    letters(name.rsplit(':').next().unwrap_or(name))
}

/// A text without case, spaces and punctuation.
pub(crate) fn letters(text: &str) -> String {
    text.chars()
        .filter(|letter| letter.is_alphanumeric())
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// The first field with one of these plain names, in their order, that has a value.
pub(crate) fn find<'a>(fields: &'a Fields, names: &[&str]) -> Option<(&'a String, &'a Value)> {
    names.iter().find_map(|name| {
        fields
            .iter()
            .find(|(field, value)| !is_nothing(value) && plain(field) == *name)
    })
}

/// Like [`find`], also in the objects inside, up to `levels` deep.
pub(crate) fn find_within<'a>(
    fields: &'a Fields,
    names: &[&str],
    levels: u32,
) -> Option<&'a Value> {
    if let Some((_, value)) = find(fields, names) {
        return Some(value);
    }
    if levels == 0 {
        return None;
    }
    fields
        .values()
        .filter_map(Value::as_object)
        .find_map(|inner| find_within(inner, names, levels - 1))
}

/// The value of a field that a dialect names: by its name, or by the way to it, as in
/// `event-data.event`.
pub(crate) fn at<'a>(fields: &'a Fields, path: &str) -> Option<&'a Value> {
    if let Some((_, value)) = find(fields, &[&plain(path)]) {
        return Some(value);
    }
    let (outer, rest) = path.split_once('.')?;
    let (_, outer) = find(fields, &[&plain(outer)])?;
    at(outer.as_object()?, rest)
}

/// Whether a field is named like the list of what failed, beside that of what did not: `errors`,
/// `failed`, `fail_list`, `rejected`.
pub(crate) fn is_of_failures(name: &str) -> bool {
    let name = plain(name);
    WORDS.of_failures.iter().any(|word| name.contains(word))
}

/// Whether the response to a batch says that some of its emails were accepted: by their list, by their
/// number, or by a word such as `partial_failure`.
pub(crate) fn counts_accepted(fields: &Fields) -> bool {
    const STATES: [&str; 5] = ["code", "status", "error", "type", "result"];
    fields.iter().any(|(name, value)| {
        let name = plain(name);
        let is_of_accepted =
            WORDS.of_accepted.iter().any(|word| name.contains(word)) && !is_of_failures(&name);
        match value {
            Value::Object(inner) => counts_accepted(inner),
            Value::Array(items) => is_of_accepted && !items.is_empty(),
            Value::Number(_) => {
                is_of_accepted && whole_number(value).is_some_and(|count| count > 0)
            }
            Value::String(word) => STATES.contains(&&*name) && plain(word).contains("partial"),
            _ => false,
        }
    })
}

/// `null` or an empty text.
pub(crate) fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// True or false, also as a word or a number.
pub(crate) fn flag(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(flag) => return Some(*flag),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_ascii_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "true" | "yes" | "y" | "1" | "on" => Some(true),
        "false" | "no" | "n" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// A number, which may be in a string.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Like [`whole_number`], with a sign.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// A point in time: RFC 3339, seconds or milliseconds since 1970, or a date and time without an
/// offset, which means UTC.
pub(crate) fn time(value: &Value) -> Option<DateTime<Utc>> {
    /// Numbers from here on are milliseconds: as seconds, they are beyond the year 5000.
    const FIRST_MILLISECONDS: i64 = 100_000_000_000;

    if let Some(number) = integer(value) {
        return match number {
            0 => None,
            FIRST_MILLISECONDS.. => DateTime::from_timestamp_millis(number),
            _ => DateTime::from_timestamp(number, 0),
        };
    }
    if let Some(seconds) = value.as_f64() {
        return DateTime::from_timestamp_millis((seconds * 1000.0) as i64);
    }

    let text = value.as_str()?.trim();
    if let Ok(time) = text.parse::<DateTime<Utc>>() {
        return Some(time);
    }
    if let Ok(time) = DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%#z") {
        return Some(time.to_utc());
    }

    let text = text.replacen('T', " ", 1);
    let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f").ok()?;
    Some(time.and_utc())
}

/// Whether a value stands for no time: `null`, an empty text, or a time long before email.
pub(crate) fn is_no_time(value: &Value) -> bool {
    is_nothing(value)
        || value.as_i64() == Some(0)
        || value
            .as_str()
            .is_some_and(|text| text.starts_with("0000-") || text.starts_with("0001-01-01"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_every_common_form() {
        let expected = "2026-11-28T10:00:00Z".parse::<DateTime<Utc>>().ok();
        for value in [
            json!("2026-11-28T10:00:00Z"),
            json!("2026-11-28T11:00:00+01:00"),
            json!("2026-11-28 10:00:00"),
            json!("2026-11-28T10:00:00"),
            json!("2026-11-28 10:00:00.000000+00"),
            json!(1_795_860_000),
            json!("1795860000"),
            json!(1_795_860_000_000_i64),
        ] {
            assert_eq!(time(&value), expected, "{value}");
        }
        for value in [json!("soon"), json!(0), json!({}), json!("")] {
            assert_eq!(time(&value), None, "{value}");
        }
    }
}
