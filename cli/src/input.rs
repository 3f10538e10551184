//! Parsers for option values and input files.

pub mod address;
pub mod at;
pub mod attach;
pub mod columns;
pub mod content;
pub mod duration;
pub mod email;
pub mod event;
pub mod file_name;
pub mod html;
pub mod opt_outs;
pub mod pairs;
pub mod people;
pub mod records;
pub mod switch;

use serde_json::Value;

use crate::failure::Failure;

/// Reads JSON of which nothing would be lost. The errors quote no value, which may be private.
pub fn exact_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::from_str(text).map_err(|error| json_problem(&error))?;
    lossy_json(text).map_or(Ok(value), Err)
}

/// A problem of one line of a file.
pub fn on_line(problem: &str, line: impl std::fmt::Display) -> String {
    problem.replace(" at line 1 ", &format!(" at line {line} "))
}

/// The value of an option that takes JSON or text: text if it is not JSON.
pub fn json_or_text(option: &str, text: String) -> Result<Value, Failure> {
    let Ok(json) = serde_json::from_str(&text) else { return Ok(Value::String(text)) };
    match lossy_json(&text) {
        None => Ok(json),
        Some(problem) => Err(Failure::usage(format!("{option}: {problem}"))),
    }
}

/// What `serde_json` would drop from a valid JSON text without an error, described: all but the
/// last of several values for one key of an object, or digits of a number.
pub fn lossy_json(text: &str) -> Option<String> {
    repeated_key(text).or_else(|| inexact_number(text))
}

/// The first key that an object has twice, described.
fn repeated_key(text: &str) -> Option<String> {
    let error = serde_json::from_str::<UniqueKeys>(text).err()?;
    // Another error is for the reader of the values.
    (error.classify() == serde_json::error::Category::Data).then(|| json_problem(&error))
}

/// Reads any JSON in which no object has a key twice.
struct UniqueKeys;

impl<'de> serde::Deserialize<'de> for UniqueKeys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> serde::de::Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                let problem = format!("the key `{key}` is given twice in one object");
                return Err(serde::de::Error::custom(problem));
            }
            map.next_value::<Self>()?;
            keys.insert(key);
        }
        Ok(self)
    }
}

/// The first number of a JSON text that `serde_json` does not keep exactly, described: an integer
/// beyond 64 bits, or more than about 17 digits with a decimal point or an exponent.
fn inexact_number(text: &str) -> Option<String> {
    let (mut at, mut in_string) = (0, false);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let rest = &text[at..];
                let end =
                    rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
                let number = &rest[..end.unwrap_or(rest.len())];
                let kept = serde_json::from_str::<serde_json::Number>(number);
                if kept.is_ok_and(|kept| decimal(&kept.to_string()) != decimal(number)) {
                    let before = &text[..at];
                    let line = before.matches('\n').count() + 1;
                    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
                    return Some(format!(
                        "the number at line {line} column {column} would lose digits; write it \
                         as a text, in quotes"
                    ));
                }
                at += number.len();
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The sign, the significant digits, and the exponent of a number.
fn decimal(number: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", integer.trim_start_matches('-'));
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX);
    let exponent = exponent.saturating_sub(fraction.len() as i64).saturating_add(zeros as i64);
    (integer.starts_with('-'), significant.to_owned(), exponent)
}

/// Describes a JSON error without quoting the text, which may be private.
pub fn json_problem(error: &serde_json::Error) -> String {
    let position = match (error.line(), error.column()) {
        (0, _) => String::new(),
        (line, column) => format!(" at line {line} column {column}"),
    };
    let problem = match error.classify() {
        serde_json::error::Category::Eof => "unexpected end of JSON",
        serde_json::error::Category::Syntax => "invalid JSON",
        serde_json::error::Category::Io => "cannot read the JSON",
        serde_json::error::Category::Data => {
            // serde's message names types and fields, and quotes at most a single value.
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            return format!("{}{position}", text.replace("invalid type: ", "wrong type: "));
        }
    };
    format!("{problem}{position}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_exactly_or_refused() {
        for text in [
            "18446744073709551615",
            "-9223372036854775808",
            "[9007199254740993, 0.1, 1.10, -0.0, 0, 1e3, 1E+21, 2.50e-7, 12.5]",
            r#"{"12345678901234567890123": "12345678901234567890123 \"1.00000000000000000001"}"#,
        ] {
            assert_eq!(inexact_number(text), None, "{text}");
        }
        for (text, place) in [
            ("18446744073709551616", "line 1 column 1 "),
            ("{\"n\":\n -9223372036854775809}", "line 2 column 2 "),
            ("[0.1, 0.1000000000000000000001]", "line 1 column 7 "),
            ("[\"\\\\\", 1e-400]", "line 1 column 8 "),
        ] {
            let problem = exact_json::<Value>(text).expect_err("refused");
            assert!(problem.contains(place) && !problem.contains("922"), "{text}: {problem}");
        }
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused_with_its_place() {
        for text in [r#"{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}], "c": "a"}"#, "[]", "-1.5"] {
            assert_eq!(lossy_json(text), None, "{text}");
        }
        for (text, problem) in [
            ("{\"a\": 1,\n \"a\": 2}", "the key `a` is given twice in one object at line 2 column"),
            (
                r#"[{"x": {"b": 1, "\u0062": null}}]"#,
                "the key `b` is given twice in one object at line 1 ",
            ),
        ] {
            let found = exact_json::<Value>(text).expect_err("refused");
            assert!(found.starts_with(problem), "{text}: {found}");
        }
        let wrong = exact_json::<Value>("{\"a\": 1, \"a\"").expect_err("refused");
        assert!(wrong.starts_with("unexpected end"), "{wrong}");
    }
}
