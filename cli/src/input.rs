//! Parsers for option values and input files.

pub mod address;
pub mod at;
pub mod attach;
pub mod choice;
pub mod columns;
pub mod duration;
pub mod email;
pub mod event;
pub mod file;
pub mod html;
pub mod iso8601;
pub mod opt_outs;
pub mod pairs;
pub mod people;
pub mod program;
pub mod records;
pub mod switch;

use serde_json::Value;

/// Reads JSON. The errors quote no value, which may be private.
pub fn read_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| json_problem(&error))
}

/// The problem of a value with a whole number that is too large to be kept exactly.
pub const LOSES_DIGITS: &str = "a number would lose digits; write it as a text, in quotes";

/// Whether a whole number within a value has become an inexact one, such as a long order number.
pub fn loses_digits(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .is_some_and(|number| number.fract() == 0.0 && number.abs() >= 9_007_199_254_740_992.0),
        Value::Array(items) => items.iter().any(loses_digits),
        Value::Object(fields) => fields.values().any(loses_digits),
        _ => false,
    }
}

/// A problem of one line of a file.
pub fn on_line(problem: &str, line: impl std::fmt::Display) -> String {
    problem.replace(" at line 1 ", &format!(" at line {line} "))
}

/// The value of an option that takes JSON or text: text if it is not JSON.
pub fn json_or_text(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
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
            return format!(
                "{}{position}",
                text.replace("invalid type: ", "wrong type: ")
            );
        }
    };
    format!("{problem}{position}")
}
