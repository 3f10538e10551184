//! A line for each call that starts and for each that ends, in a file that only its owner reads.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::runner::Output;
use super::table::ACTION;
use crate::failure::Failure;
use crate::private_files;

/// The size at which another file begins. The one before it is kept.
const MAX_FILE: u64 = 10_000_000;

/// The file.
pub struct Audit(pub PathBuf);

impl Audit {
    /// Executes a call between two lines: its start, and its end with the kind of its error, if there is
    /// one, and the ID of its request. What cannot be recorded is not done.
    pub async fn record(
        &self,
        mut line: Value,
        call: impl Future<Output = Result<Output, Failure>>,
    ) -> Output {
        line["call"] = Uuid::new_v4().simple().to_string().into();
        line["result"] = "started".into();
        if let Err(error) = self.write(&mut line) {
            let problem = format!("the call cannot be recorded: {}: {error}", self.0.display());
            let failure = Failure::other(problem).code("no_audit");
            return failure
                .hint("make the file writable: nothing was done")
                .into();
        }

        let output = call.await.unwrap_or_else(Output::from);
        let error = output.fields["error"].as_object();
        line["result"] = error.map_or("ok".into(), |error| error["kind"].clone());
        let of_error = error.and_then(|error| error.get("request_id").cloned());
        if let Some(id) = of_error.or(output.request_id.clone().map(Value::from)) {
            line["request_id"] = id;
        }
        if let Err(error) = self.write(&mut line) {
            tracing::error!(%error, "the end of a call is not recorded");
        }
        output
    }

    /// Adds a line. Those of calls at the same time, also of other processes, do not mix.
    fn write(&self, line: &mut Value) -> std::io::Result<()> {
        line["time"] = Utc::now()
            .to_rfc3339_opts(SecondsFormat::Millis, true)
            .into();
        let _lock = private_files::lock(&self.0.with_extension("lock"))?;
        if fs::metadata(&self.0).is_ok_and(|file| file.len() > MAX_FILE) {
            fs::rename(&self.0, self.0.with_extension("old.ndjson"))?;
        }
        let mut file = private_files::append(&self.0)?;
        #[cfg(unix)]
        if file.metadata()?.is_file() {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// The names of the arguments that are known, and IDs: no content.
pub fn described(given: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let is_id = |text: &str| {
        text.len() <= 64
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };

    let known = given
        .iter()
        .filter(|(name, _)| known.contains(&name.as_str()));
    let described = known.map(|(name, value)| {
        let is_kept =
            ["id", "job", ACTION].contains(&name.as_str()) && value.as_str().is_some_and(is_id);
        (
            name.clone(),
            if is_kept { value.clone() } else { Value::Null },
        )
    });
    described.collect()
}
