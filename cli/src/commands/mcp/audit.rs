//! A line for each call that starts and for each that ends, in a file that only its owner reads.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Map, Value};
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
    /// Records the start of a call, and returns the line: what cannot be recorded is not done.
    pub fn begin(&self, mut line: Value) -> Result<Value, Failure> {
        line["time"] = stamp(Utc::now()).into();
        line["call"] = Uuid::new_v4().simple().to_string().into();
        line["result"] = STARTED.into();
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
    pub fn sent(&self, request: &str, call: &Value, since: DateTime<Utc>) -> Option<String> {
        let (since, day_ago) = (stamp(since), stamp(Utc::now() - TimeDelta::days(1)));
        let mut last = HashMap::new();
        for path in [self.old(), self.0.clone()] {
            let text = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().filter(|line| line.contains(request));
            let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            last.extend(lines.map(|line| (line["call"].to_string(), line)));
        }
        last.remove(&call.to_string());
        last.into_values().find_map(|line| {
            let is_open = line["result"] == STARTED || line["result"] == OUTCOME_UNKNOWN;
            let time = line["time"].as_str()?;
            (*time >= *since || is_open && *time > *day_ago).then(|| time.to_owned())
        })
    }

    /// Records the end of a call: the kind of its error if there is one, and the ID of its request.
    pub fn end(&self, mut line: Value, output: &Output) {
        let error = output.fields["error"].as_object();
        line["time"] = stamp(Utc::now()).into();
        line["result"] = error.map_or("ok".into(), |error| error["kind"].clone());
        let of_error = error.and_then(|error| error.get("request_id").cloned());
        if let Some(id) = of_error.or(output.request_id.clone().map(Value::from)) {
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
    let is_id = |name: &str, text: &str| {
        ["id", "job", ACTION].contains(&name)
            && text.len() <= 64
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let known = given.iter().filter(|(name, _)| known.contains(&name.as_str()));
    let mut described = known
        .map(|(name, value)| match value {
            Value::Array(values) => (name.clone(), values.len().into()),
            Value::String(text) if is_id(name, text) => (name.clone(), value.clone()),
            Value::Bool(_) => (name.clone(), value.clone()),
            _ => (name.clone(), Value::Null),
        })
        .collect::<Map<_, _>>();
    if described.len() < given.len() {
        described.insert("unknown".to_owned(), (given.len() - described.len()).into());
    }
    described
}
