//! A line for each call that starts and for each that ends, in a file that only its owner reads.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::failure::Failure;
use crate::private;

/// The result of a call that has not ended.
const STARTED: &str = "started";
/// The result of a call that may or may not have had an effect.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

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

    /// Records the start of a call: what cannot be recorded is not done. `more` are fields of the line.
    pub fn begin(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        more: Map<String, Value>,
    ) -> Result<Entry<'_>, Failure> {
        let mut line = json!({
            "time": now(),
            "call": Uuid::new_v4().simple().to_string(),
            "tool": tool,
            "arguments": arguments,
            "result": STARTED,
        });
        more.into_iter().for_each(|(name, value)| line[name] = value);
        let file = self.open().and_then(|mut file| self.write(&mut file, &line).map(|()| file));
        let file = file.map_err(|error| {
            let problem = format!("the call cannot be recorded: {}: {error}", self.path.display());
            Failure::other(problem)
                .code("no_audit")
                .hint("make the file writable: nothing was done")
        })?;
        Ok(Entry { audit: self, file, line })
    }

    /// When a call with this request was started whose outcome is not known, in the last day.
    pub fn unfinished(&self, request: &Value) -> Option<String> {
        let text = std::fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut open = HashMap::new();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for mut line in lines.filter(|line| line["request"] == *request) {
            let call = line["call"].to_string();
            let time = line["time"].take();
            match (line["result"].as_str(), time) {
                (Some(STARTED), Value::String(time)) => drop(open.insert(call, time)),
                (Some(OUTCOME_UNKNOWN), _) => {}
                _ => drop(open.remove(&call)),
            }
        }
        let day_ago = stamp(Utc::now() - TimeDelta::days(1));
        open.into_values().find(|time| *time > day_ago)
    }

    fn open(&self) -> std::io::Result<File> {
        self.path.parent().map_or(Ok(()), private::create_dir)?;
        let file = private::append(&self.path)?;
        #[cfg(unix)]
        if file.metadata()?.is_file() {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        Ok(file)
    }

    fn write(&self, file: &mut File, line: &Value) -> std::io::Result<()> {
        let _writing = self.writing.lock();
        file.write_all(format!("{line}\n").as_bytes())
    }
}

impl Entry<'_> {
    /// Records the end, with the error object if there is one.
    pub fn end(mut self, error: Option<&Value>) {
        let field = |name: &str| error.and_then(|error| error.get(name)).cloned();
        self.line["time"] = now().into();
        self.line["result"] = field("kind").unwrap_or_else(|| "ok".into());
        if let Some(id) = field("request_id") {
            self.line["request_id"] = id;
        }
        if let Err(error) = self.audit.write(&mut self.file, &self.line) {
            tracing::error!(%error, "the end of a call is not recorded");
        }
    }
}

fn now() -> String {
    stamp(Utc::now())
}

fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The names of the arguments that `is_known`, IDs, and how many values a list has: no content.
pub fn described(
    given: &Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let shown = |name: &str, value: &Value| match value {
        Value::Array(values) => values.len().into(),
        Value::String(text) if is_id(name, text) => value.clone(),
        Value::Bool(_) => value.clone(),
        _ => Value::Null,
    };
    let known = given.iter().filter(|(name, _)| is_known(name));
    let mut described =
        known.map(|(name, value)| (name.clone(), shown(name, value))).collect::<Map<_, _>>();
    let unknown = given.len() - described.len();
    if unknown > 0 {
        described.insert("unknown".to_owned(), unknown.into());
    }
    described
}

fn is_id(name: &str, text: &str) -> bool {
    matches!(name, "id" | "job" | "action")
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
