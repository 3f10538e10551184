//! A line for each call, in a file that only its owner reads.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::private;

/// The file.
pub struct Audit {
    path: PathBuf,
    /// Lines of calls at the same time do not mix.
    writing: Mutex<()>,
}

/// A call that is about to be executed.
pub struct Entry<'a> {
    audit: &'a Audit,
    file: File,
    line: Value,
}

impl Audit {
    pub fn new(path: PathBuf) -> Self {
        Self { path, writing: Mutex::new(()) }
    }

    /// Opens the file before a call: what cannot be recorded is not done.
    pub fn begin(&self, tool: &str, given: &Map<String, Value>) -> Result<Entry<'_>, Failure> {
        let folder = self.path.parent().map_or(Ok(()), private::create_dir);
        let file = folder.and_then(|()| private::append(&self.path)).map_err(|error| {
            let problem = format!("the call cannot be recorded: {}: {error}", self.path.display());
            Failure::other(problem)
                .code("no_audit")
                .hint("make the file writable: nothing was done")
        })?;
        let line = json!({
            "time": Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            "tool": tool,
            "arguments": described(given),
        });
        Ok(Entry { audit: self, file, line })
    }
}

impl Entry<'_> {
    /// Writes the line, with the error object if there is one.
    pub fn end(mut self, error: Option<&Value>) {
        let field = |name: &str| error.and_then(|error| error.get(name)).cloned();
        self.line["result"] = field("kind").unwrap_or_else(|| "ok".into());
        if let Some(id) = field("request_id") {
            self.line["request_id"] = id;
        }
        let _writing = self.audit.writing.lock();
        if let Err(error) = self.file.write_all(format!("{}\n", self.line).as_bytes()) {
            tracing::error!(%error, "a call is not recorded");
        }
    }
}

/// The names of the arguments, IDs, and how many values a list has: no content.
fn described(given: &Map<String, Value>) -> Value {
    let shown = |name: &str, value: &Value| match value {
        Value::Array(values) => values.len().into(),
        Value::String(text) if is_id(name, text) => value.clone(),
        Value::Bool(_) => value.clone(),
        _ => Value::Null,
    };
    given
        .iter()
        .map(|(name, value)| (name.clone(), shown(name, value)))
        .collect::<Map<_, _>>()
        .into()
}

fn is_id(name: &str, text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '/' | '.');
    matches!(name, "id" | "job" | "action" | "resource")
        && text.len() <= 80
        && text.chars().all(is_plain)
}
