//! Writes JSON as YAML.
//!
//! Every string that is not plainly a string is written as a JSON string, which is valid YAML.

use serde_json::Value;

/// Formats a value as a YAML document with a final newline.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0, false);
    text
}

fn write(text: &mut String, value: &Value, depth: usize, after_key: bool) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                if after_key || index > 0 {
                    indent(text, depth);
                }
                text.push_str(&scalar(key));
                text.push(':');
                child(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if after_key || index > 0 {
                    indent(text, depth);
                }
                text.push_str("- ");
                write(text, item, depth + 1, false);
            }
        }
        Value::String(string) => line(text, &scalar(string)),
        Value::Object(_) => line(text, "{}"),
        Value::Array(_) => line(text, "[]"),
        Value::Null | Value::Bool(_) | Value::Number(_) => line(text, &value.to_string()),
    }
}

fn child(text: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    text.push(if nested { '\n' } else { ' ' });
    write(text, value, depth + 1, nested);
}

fn line(text: &mut String, content: &str) {
    text.push_str(content);
    text.push('\n');
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

fn scalar(string: &str) -> String {
    if is_plain(string) { string.to_owned() } else { Value::from(string).to_string() }
}

/// Whether every YAML parser reads the unquoted text as this string.
fn is_plain(string: &str) -> bool {
    const RESERVED: [&str; 11] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let mut characters = string.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters
            .all(|rest| rest.is_ascii_alphanumeric() || matches!(rest, '_' | '-' | '.' | '/' | '@'))
        && !RESERVED.contains(&string.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_values_keep_their_shape() {
        let value = json!({
            "id": "eml_1",
            "to": ["ada@example.test", "x: y"],
            "tags": {},
            "recipients": [{"address": "a@b.test", "detail": null}],
            "count": 2,
            "flag": "no",
            "text": "two\nlines",
        });
        assert_eq!(
            to_yaml(&value),
            "id: eml_1\n\
             to:\n  - ada@example.test\n  - \"x: y\"\n\
             tags: {}\n\
             recipients:\n  - address: a@b.test\n    detail: null\n\
             count: 2\n\
             flag: \"no\"\n\
             text: \"two\\nlines\"\n"
        );
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for text in ["", "12", "1e3", "true", "No", "~", "- a", "#x", "a b", "2026-01-01"] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
