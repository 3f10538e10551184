//! Deliveries that `svc listen` received, kept so that `svc replay` can send
//! them again: a file each, readable by its owner alone.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failure::{Failure, Kind};
use crate::input::json_problem;

/// How long a delivery is kept.
const KEPT: TimeDelta = TimeDelta::days(30);

/// A delivery as it came in.
#[derive(Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// What to call it in `svc replay`.
    pub id: String,
    /// When it came in, RFC 3339.
    pub received_at: String,
    /// `email` or `extraction`.
    pub service: String,
    /// The event, where the body or a header names one.
    pub event: Option<String>,
    /// The event's own id, which retries keep.
    #[serde(default)]
    pub event_id: Option<String>,
    /// Its headers, as they came.
    pub headers: Vec<(String, String)>,
    /// Its body in Base64: the exact bytes, whatever they are.
    body: String,
    /// Where it was passed on to.
    pub forwarded_to: Option<String>,
    /// The file of the secret that it was verified with.
    pub secret_file: Option<PathBuf>,
}

impl Recorded {
    pub fn new(
        service: &str,
        event: Option<String>,
        headers: Vec<(String, String)>,
        body: &[u8],
    ) -> Self {
        Self {
            id: format!("rec_{}", Uuid::now_v7().simple()),
            received_at: Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            service: service.to_owned(),
            event,
            event_id: event_id(body),
            headers,
            body: STANDARD.encode(body),
            forwarded_to: None,
            secret_file: None,
        }
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> Result<Vec<u8>, Failure> {
        STANDARD
            .decode(&self.body)
            .map_err(|_| Failure::other(format!("the record {} is damaged", self.id)))
    }
}

/// The directory of recorded deliveries.
pub struct Records(PathBuf);

impl Records {
    pub fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("deliveries"))
    }

    /// Keeps a delivery.
    pub fn keep(&self, record: &Recorded) -> Result<(), Failure> {
        let text = serde_json::to_vec(record).map_err(|e| Failure::other(e.to_string()))?;
        write_private(&self.path(&record.id), &text)
    }

    /// One delivery by its own id, or the newest one of an event's id.
    pub fn get(&self, id: &str) -> Result<Recorded, Failure> {
        let ids = self.ids()?;
        if ids.iter().any(|known| known == id) {
            return self.read(id);
        }
        for record in ids.iter().rev() {
            let record = self.read(record)?;
            if record.event_id.as_deref() == Some(id) {
                return Ok(record);
            }
        }
        Err(Failure::new(Kind::NotFound, format!("no delivery `{id}` is recorded"))
            .hint("svc listen records deliveries and shows their ids"))
    }

    /// Every delivery since an instant, oldest first: ids are in the order of time.
    pub fn since(&self, instant: DateTime<Utc>) -> Result<Vec<Recorded>, Failure> {
        let mut found = Vec::new();
        for id in self.ids()? {
            let record = self.read(&id)?;
            let at = DateTime::parse_from_rfc3339(&record.received_at);
            if at.is_ok_and(|at| at >= instant) {
                found.push(record);
            }
        }
        Ok(found)
    }

    /// The newest deliveries, the newest first; what is damaged is left out.
    pub fn newest(&self, count: usize) -> Result<Vec<Recorded>, Failure> {
        let ids = self.ids()?;
        Ok(ids.iter().rev().take(count).filter_map(|id| self.read(id).ok()).collect())
    }

    /// Removes what is older than a month.
    pub fn forget_old(&self) -> Result<(), Failure> {
        let oldest = (Utc::now() - KEPT).timestamp();
        for id in self.ids()? {
            let made = id.strip_prefix("rec_").and_then(|id| Uuid::try_parse(id).ok());
            let made = made.and_then(|id| id.get_timestamp()).map(|time| time.to_unix().0);
            if made.is_some_and(|seconds| i64::try_from(seconds).is_ok_and(|s| s < oldest)) {
                // Another session may have been faster.
                let _ = fs::remove_file(self.path(&id));
            }
        }
        Ok(())
    }

    fn read(&self, id: &str) -> Result<Recorded, Failure> {
        let path = self.path(id);
        let damaged =
            |why: &str| Failure::other(format!("{}: the record is damaged: {why}", path.display()));
        let text = fs::read(&path).map_err(|error| damaged(&error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| damaged(&json_problem(&error)))
    }

    /// The ids of all records in the order of time, which is theirs.
    fn ids(&self) -> Result<Vec<String>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::other(format!("{}: {error}", self.0.display()))),
        };
        let mut ids = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .collect::<Vec<_>>();
        ids.sort();
        Ok(ids)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }
}

/// The file that holds the secret of the last session of `svc listen`.
pub fn session_secret(data_dir: &Path, service: &str) -> PathBuf {
    data_dir.join(format!("listen-{service}.secret"))
}

/// Writes a file that its owner alone can read.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::other(format!("{}: {error}", path.display()));
    if let Some(parent) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(parent).map_err(failed)?;
    }
    // Beside it and renamed: whole or not at all, and never with an old one's looser mode.
    let new = path.with_extension(format!("{}.new", Uuid::now_v7().simple()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(&new)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(failed)
}

fn event_id(body: &[u8]) -> Option<String> {
    match serde_json::from_slice::<serde_json::Value>(body).ok()?.get("id")? {
        serde_json::Value::String(id) => Some(id.clone()),
        serde_json::Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_byte_for_byte_and_in_the_order_of_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let bodies: [&[u8]; 3] = [b"{\"a\": 1}\r\n", &[0, 159, 146, 150], b""];
        for body in bodies {
            records.keep(&Recorded::new("email", None, Vec::new(), body)).expect("kept");
        }
        let found = records.since(DateTime::UNIX_EPOCH).expect("read");
        let read = found.iter().map(|r| r.body().expect("bytes")).collect::<Vec<_>>();
        assert_eq!(read, bodies.map(<[u8]>::to_vec));
        assert!(records.since(Utc::now() + TimeDelta::hours(1)).expect("read").is_empty());
    }

    #[test]
    fn an_id_cannot_leave_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("rec_x.json"), "{}").expect("written");
        let records = Records::in_dir(dir.path());
        for id in ["../rec_x", "rec_../rec_x", "rec_", "x"] {
            assert_eq!(records.get(id).err().map(|e| e.kind()), Some(Kind::NotFound));
        }
    }

    #[test]
    fn events_are_found_by_their_own_id_the_newest_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let record = || Recorded::new("email", None, Vec::new(), b"{\"id\":\"e1\"}");
        let (first, second) = (record(), record());
        for record in [&first, &second] {
            records.keep(record).expect("kept");
        }
        assert_eq!(records.get("e1").expect("found").id, second.id);
        assert_eq!(records.get(&first.id).expect("found").id, first.id);
    }

    #[test]
    fn old_records_go() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let mut old = Recorded::new("email", None, Vec::new(), b"{}");
        let then = uuid::Timestamp::from_unix(uuid::NoContext, 1_700_000_000, 0);
        old.id = format!("rec_{}", Uuid::new_v7(then).simple());
        let new = Recorded::new("email", None, Vec::new(), b"{}");
        records.keep(&old).expect("kept");
        records.keep(&new).expect("kept");
        records.forget_old().expect("looked");
        assert_eq!(records.ids().expect("read"), [new.id]);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let record = Recorded::new("email", None, Vec::new(), b"{}");
        records.keep(&record).expect("kept");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&records.path(&record.id)), mode(&records.0)), (0o600, 0o700));
    }
}
