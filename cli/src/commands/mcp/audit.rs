//! A line for each call that starts and for each that ends, in a file that only its owner reads.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::runner::Output;
use super::table::ACTION;
use crate::failure::Failure;
use crate::private;

/// The result of a call that has not ended.
const STARTED: &str = "started";
/// The result of a call that may or may not have had an effect.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// The size at which another file begins. The one before it is kept.
const MAX_FILE: u64 = 10_000_000;

/// The file.
pub struct Audit(pub PathBuf);

impl Audit {
    /// Records the start of a call, and returns the line: what cannot be recorded is not done. `more` are
    /// fields of the line.
    pub fn begin(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        more: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let call = Uuid::new_v4().simple().to_string();
        let now = stamp(Utc::now());
        let mut line = json!({"time": now, "call": call, "tool": tool, "arguments": arguments, "result": STARTED});
        more.iter().for_each(|(name, value)| line[name] = value.clone());
        self.write(&line).map_err(|error| {
            let problem = format!("the call cannot be recorded: {}: {error}", self.0.display());
            Failure::other(problem)
                .code("no_audit")
                .hint("make the file writable: nothing was done")
        })?;
        Ok(line)
    }

    /// When another call than this one sent the same since a time, or, in the last day, may have: its
    /// outcome is not known.
    pub fn sent(&self, request: &Value, call: &Value, since: DateTime<Utc>) -> Option<String> {
        let digest = request.as_str().unwrap_or_default();
        let (since, day_ago) = (stamp(since), stamp(Utc::now() - TimeDelta::days(1)));
        let mut started = HashMap::new();
        for path in [self.old(), self.0.clone()] {
            let text = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().filter(|line| line.contains(digest));
            let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            for line in lines.filter(|line| line["call"] != *call) {
                let time = line["time"].as_str().unwrap_or_default().to_owned();
                let (_, is_open) = started.entry(line["call"].to_string()).or_insert((time, true));
                *is_open = [STARTED, OUTCOME_UNKNOWN].iter().any(|open| line["result"] == *open);
            }
        }
        let mut sent = started.into_values();
        let is_it =
            |(time, is_open): &(String, bool)| *time >= since || *is_open && *time > day_ago;
        sent.find(is_it).map(|(time, _)| time)
    }

    /// Records the end of a call: the kind of its error if there is one, and the ID of its request.
    pub fn end(&self, mut line: Value, output: &Output) {
        let field = |name: &str| output.error.as_ref()?.get(name).cloned();
        line["time"] = stamp(Utc::now()).into();
        line["result"] = field("kind").unwrap_or_else(|| "ok".into());
        if let Some(id) = field("request_id").or(output.request_id.clone().map(Value::from)) {
            line["request_id"] = id;
        }
        if let Err(error) = self.write(&line) {
            tracing::error!(%error, "the end of a call is not recorded");
        }
    }

    fn old(&self) -> PathBuf {
        self.0.with_extension("old.ndjson")
    }

    /// Adds a line. Those of calls at the same time, also of other processes, do not mix.
    fn write(&self, line: &Value) -> std::io::Result<()> {
        let _lock = private::lock(&self.0.with_extension("lock"))?;
        if fs::metadata(&self.0).is_ok_and(|file| file.len() > MAX_FILE) {
            fs::rename(&self.0, self.old())?;
        }
        let mut file = private::append(&self.0)?;
        #[cfg(unix)]
        if file.metadata()?.is_file() {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The names of the arguments that are known, IDs, and how many values a list has: no content.
pub fn described(given: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let mut described = Map::new();
    for (name, value) in given.iter().filter(|(name, _)| known.contains(&name.as_str())) {
        let is_id = |text: &str| {
            ["id", "job", ACTION].contains(&name.as_str())
                && text.len() <= 64
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        };
        let shown = match value {
            Value::Array(values) => values.len().into(),
            Value::String(text) if is_id(text) => value.clone(),
            Value::Bool(_) => value.clone(),
            _ => Value::Null,
        };
        described.insert(name.clone(), shown);
    }
    if described.len() < given.len() {
        described.insert("unknown".to_owned(), (given.len() - described.len()).into());
    }
    described
}
