//! Parsers for option values and input files.

pub mod address;
pub mod at;
pub mod attach;
pub mod content;
pub mod duration;
pub mod event;
pub mod html;
pub mod pairs;
pub mod switch;

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
