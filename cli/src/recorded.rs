//! Webhook deliveries that `svc listen` received, stored for `svc replay`: one file per delivery,
//! with mode 0600.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failure::{Failure, Kind};
use crate::input::json_problem;
use crate::private;

pub mod session_secret;

/// How long a delivery is stored.
const RETENTION: TimeDelta = TimeDelta::days(30);

/// A stored delivery.
#[derive(Clone, Serialize, Deserialize)]
pub struct RecordedDelivery {
    /// The id of the record, for `svc replay`.
    pub id: String,
    /// The time of receipt, RFC 3339.
    pub received_at: String,
    /// `email` or `extraction`.
    pub service: String,
    /// The event, if the body or a header names one.
    pub event: Option<String>,
    /// The `id` in the body, which is the same for every attempt.
    #[serde(default)]
    pub event_id: Option<String>,
    /// The headers, unchanged.
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body, in Base64.
    body: String,
    /// The URL to which the delivery was forwarded.
    pub forwarded_to: Option<String>,
    /// The file with the secret that verified the delivery.
    pub secret_file: Option<PathBuf>,
}

impl RecordedDelivery {
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
            .map_err(|_| Failure::other(format!("the record {} is corrupt", self.id)))
    }
}

/// The id of a record, and the record or why it cannot be read.
pub type Entry = (String, Result<RecordedDelivery, Failure>);

/// The directory of stored deliveries.
pub struct Records(PathBuf);

impl Records {
    pub fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("deliveries"))
    }

    /// Stores a delivery.
    pub fn store(&self, record: &RecordedDelivery) -> Result<(), Failure> {
        let text = serde_json::to_vec(record).map_err(|e| Failure::other(e.to_string()))?;
        write_private(&self.path(&record.id), &text)
    }

    /// The delivery with this record id, or the newest one with this event id.
    pub fn get(&self, id: &str) -> Result<RecordedDelivery, Failure> {
        let ids = self.ids()?;
        if ids.iter().any(|known| known == id) {
            return self.read(id);
        }
        // A corrupt record does not hide the others.
        for record in ids.iter().rev().filter_map(|record| self.read(record).ok()) {
            if record.event_id.as_deref() == Some(id) {
                return Ok(record);
            }
        }
        Err(Failure::new(
            Kind::NotFound,
            format!("there is no recorded delivery with the id `{id}`"),
        )
        .hint("svc listen records deliveries and prints their ids"))
    }

    /// The deliveries received since an instant, oldest first, and the failures to read the others.
    /// Of several attempts to deliver one event, only the newest.
    pub fn since(&self, instant: DateTime<Utc>) -> Result<Since, Failure> {
        let mut since = Since::default();
        let mut seen = HashSet::new();
        for id in self.ids()?.iter().rev() {
            // A corrupt file still has the time in its name.
            if created(id).is_some_and(|at| at < instant.timestamp()) {
                break;
            }
            let record = match self.read(id) {
                Ok(record) => record,
                Err(failure) => {
                    since.corrupt.push((id.clone(), failure));
                    continue;
                }
            };
            let at = DateTime::parse_from_rfc3339(&record.received_at);
            if at.is_ok_and(|at| at < instant) {
                continue;
            }
            let event = record.event_id.clone().map(|event| (record.service.clone(), event));
            if event.is_some_and(|event| !seen.insert(event)) {
                since.repeated += 1;
            } else {
                since.records.push(record);
            }
        }
        since.records.reverse();
        since.corrupt.reverse();
        Ok(since)
    }

    /// Every delivery, oldest first: the record, or why it cannot be read.
    pub fn all(&self) -> Result<Vec<Entry>, Failure> {
        let ids = self.ids()?.into_iter();
        Ok(ids.map(|id| (id.clone(), self.read(&id))).collect())
    }

    /// The newest deliveries, newest first, to complete their ids. Corrupt records are skipped.
    pub fn newest(&self, count: usize) -> Result<Vec<RecordedDelivery>, Failure> {
        let ids = self.ids()?;
        Ok(ids.iter().rev().take(count).filter_map(|id| self.read(id).ok()).collect())
    }

    /// Removes records older than [`RETENTION`].
    pub fn remove_expired(&self) -> Result<(), Failure> {
        let oldest = (Utc::now() - RETENTION).timestamp();
        for id in self.ids()? {
            if created(&id).is_some_and(|seconds| seconds < oldest) {
                // Another session may have removed it first.
                let _ = fs::remove_file(self.path(&id));
            }
        }
        Ok(())
    }

    fn read(&self, id: &str) -> Result<RecordedDelivery, Failure> {
        let path = self.path(id);
        let corrupt =
            |why: &str| Failure::other(format!("{}: the record is corrupt: {why}", path.display()));
        let text = fs::read(&path).map_err(|error| corrupt(&error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| corrupt(&json_problem(&error)))
    }

    /// The ids of all records. They are UUIDv7, so their order is that of time.
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

/// The deliveries that [`Records::since`] found.
#[derive(Default)]
pub struct Since {
    pub records: Vec<RecordedDelivery>,
    /// The ids of records that cannot be read.
    pub corrupt: Vec<(String, Failure)>,
    /// How many earlier attempts of the same events were left out.
    pub repeated: usize,
}

/// The time in the id of a record, in seconds since the epoch.
pub fn created(id: &str) -> Option<i64> {
    let id = id.strip_prefix("rec_").and_then(|id| Uuid::try_parse(id).ok())?;
    i64::try_from(id.get_timestamp()?.to_unix().0).ok()
}

/// Atomically writes a file with mode 0600.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    private::replace(path, content)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))
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
    fn bodies_round_trip_byte_for_byte_in_order_of_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let bodies: [&[u8]; 3] = [b"{\"a\": 1}\r\n", &[0, 159, 146, 150], b""];
        for body in bodies {
            records.store(&RecordedDelivery::new("email", None, Vec::new(), body)).expect("stored");
        }
        let found = records.since(DateTime::UNIX_EPOCH).expect("read").records;
        let read = found.iter().map(|r| r.body().expect("bytes")).collect::<Vec<_>>();
        assert_eq!(read, bodies.map(<[u8]>::to_vec));
        let later = records.since(Utc::now() + TimeDelta::hours(1)).expect("read");
        assert!(later.records.is_empty());
    }

    #[test]
    fn corrupt_records_are_reported_and_events_are_returned_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let event = |service, id| {
            let body = format!("{{\"id\":\"{id}\"}}");
            RecordedDelivery::new(service, None, Vec::new(), body.as_bytes())
        };
        let broken = event("email", "broken");
        let first = event("email", "one");
        let (other, last) = (event("extraction", "one"), event("email", "one"));
        for record in [&first, &broken, &other, &last] {
            records.store(record).expect("stored");
        }
        fs::write(records.path(&broken.id), "{").expect("written");
        let since = records.since(DateTime::UNIX_EPOCH).expect("read");
        assert_eq!(since.corrupt.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&broken.id]);
        assert_eq!((since.records.len(), since.repeated), (2, 1));
        assert_eq!(since.records[1].id, last.id);
        assert_eq!(records.get("one").expect("found").id, last.id);
    }

    #[test]
    fn ids_cannot_escape_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("rec_x.json"), "{}").expect("written");
        let records = Records::in_dir(dir.path());
        for id in ["../rec_x", "rec_../rec_x", "rec_", "x"] {
            assert_eq!(records.get(id).err().map(|e| e.kind()), Some(Kind::NotFound));
        }
    }

    #[test]
    fn lookup_by_event_id_returns_the_newest_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let record = || RecordedDelivery::new("email", None, Vec::new(), b"{\"id\":\"e1\"}");
        let (first, second) = (record(), record());
        for record in [&first, &second] {
            records.store(record).expect("stored");
        }
        assert_eq!(records.get("e1").expect("found").id, second.id);
        assert_eq!(records.get(&first.id).expect("found").id, first.id);
    }

    #[test]
    fn expired_records_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let mut old = RecordedDelivery::new("email", None, Vec::new(), b"{}");
        let then = uuid::Timestamp::from_unix(uuid::NoContext, 1_700_000_000, 0);
        old.id = format!("rec_{}", Uuid::new_v7(then).simple());
        let new = RecordedDelivery::new("email", None, Vec::new(), b"{}");
        records.store(&old).expect("stored");
        records.store(&new).expect("stored");
        records.remove_expired().expect("removed");
        assert_eq!(records.ids().expect("read"), [new.id]);
    }

    #[cfg(unix)]
    #[test]
    fn records_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::in_dir(dir.path());
        let record = RecordedDelivery::new("email", None, Vec::new(), b"{}");
        records.store(&record).expect("stored");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&records.path(&record.id)), mode(&records.0)), (0o600, 0o700));
    }
}
