//! Writes JSON as YAML.
//!
//! Every string that is not plainly a string is written as a JSON string, which is valid YAML.

use serde_json::Value;

/// Formats a value as a YAML document with a final newline.
pub(crate) fn to_yaml(value: &Value) -> String {
    lines(value)
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) if !map.is_empty() => map.iter().flat_map(entry).collect(),
        Value::Array(items) if !items.is_empty() => {
            let indented = |(index, line)| match index {
                0 => format!("- {line}"),
                _ => format!("  {line}"),
            };
            let lines = |item| lines(item).into_iter().enumerate().map(indented);
            items.iter().flat_map(lines).collect()
        }
        Value::String(string) => vec![scalar(string)],
        other => vec![other.to_string()],
    }
}

fn entry((key, value): (&String, &Value)) -> Vec<String> {
    let (key, lines) = (scalar(key), lines(value));
    let is_nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    match is_nested {
        true => {
            let below = lines.iter().map(|line| format!("  {line}"));
            std::iter::once(format!("{key}:")).chain(below).collect()
        }
        false => lines
            .iter()
            .map(|value| format!("{key}: {value}"))
            .collect(),
    }
}

fn scalar(string: &str) -> String {
    if is_plain(string) {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

/// Whether every YAML parser reads the unquoted text as this string.
fn is_plain(string: &str) -> bool {
    const RESERVED: [&str; 11] = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
    ];
    let mut characters = string.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
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
        for text in [
            "",
            "12",
            "1e3",
            "true",
            "No",
            "~",
            "- a",
            "#x",
            "a b",
            "2026-01-01",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
