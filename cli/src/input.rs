//! What people type, read into what it means.

pub mod at;
pub mod attach;
pub mod content;
pub mod duration;
pub mod html;
pub mod pairs;

/// What is wrong with a JSON text, without quoting it: it may be a user's content.
pub fn json_problem(error: &serde_json::Error) -> String {
    let place = match (error.line(), error.column()) {
        (0, _) => String::new(),
        (line, column) => format!(" at line {line} column {column}"),
    };
    let problem = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Data => {
            // serde's own words name types and fields, and quote single values.
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            return format!("{}{place}", text.replace("invalid type: ", "wrong type: "));
        }
    };
    format!("{problem}{place}")
}
