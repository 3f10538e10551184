//! Webhook deliveries that `svc listen` received, stored for `svc replay`: one file per delivery,
//! with mode 0600.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::header::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::deliver::Delivery;
use crate::failure::{Failure, Kind};
use crate::input::json_problem;
use crate::path_in_json;
use crate::private_files;

/// How long a delivery is stored.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A stored delivery.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordedDelivery {
    /// The id of the record, for `svc replay`.
    pub id: String,
    /// The time of receipt, RFC 3339 in UTC, with milliseconds.
    pub received_at: String,
    /// `email` or `extraction`.
    pub service: String,
    /// The event, if the body or a header names one.
    pub event: Option<String>,
    /// The `id` in the body, which is the same for every attempt.
    #[serde(default)]
    pub event_id: Option<String>,
    /// The headers. Each character of a value stands for one byte (ISO 8859-1).
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body, in Base64.
    body: String,
    /// The URL to which the delivery was forwarded.
    pub forwarded_to: Option<String>,
    /// The file of `--secret-file`, if the delivery was verified with it.
    #[serde(default, with = "path_in_json")]
    #[schemars(with = "Option<String>")]
    pub secret_file: Option<PathBuf>,
}

impl RecordedDelivery {
    pub fn new(service: &str, event: Option<String>, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |value: &[u8]| value.iter().copied().map(char::from).collect();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), header(value.as_bytes())));
        Self {
            id: format!("rec_{}", Uuid::now_v7().simple()),
            received_at: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            service: service.to_owned(),
            event,
            event_id: None,
            headers: headers.collect(),
            body: STANDARD.encode(body),
            forwarded_to: None,
            secret_file: None,
        }
    }

    /// The exact bytes of the body.
    fn body(&self) -> Result<Vec<u8>, Failure> {
        STANDARD
            .decode(&self.body)
            .map_err(|_| Failure::other(format!("the record {} is corrupt", self.id)))
    }

    /// The delivery as it was received, for another URL.
    pub fn to_delivery(&self, url: &str) -> Result<Delivery, Failure> {
        let byte = |character| u8::try_from(character).ok();
        let value = |value: &String| value.chars().filter_map(byte).collect::<Vec<_>>();
        let headers = self.headers.iter().map(|(name, text)| (name, value(text)));
        Ok(Delivery::new(url, headers, self.body()?))
    }
}

/// The directory of stored deliveries.
pub struct RecordedDeliveries(PathBuf);

impl RecordedDeliveries {
    pub fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("deliveries"))
    }

    /// Stores a delivery.
    pub fn store(&self, record: &RecordedDelivery) -> Result<(), Failure> {
        let path = self.path(&record.id);
        serde_json::to_vec(record)
            .map_err(std::io::Error::other)
            .and_then(|text| private_files::replace(&path, &text))
            .map_err(|error| Failure::other(format!("{}: {error}", path.display())))
    }

    /// The delivery with this record id, or the newest one with this event id.
    pub fn get(&self, id: &str) -> Result<RecordedDelivery, Failure> {
        let mut files = self.files()?.into_iter();
        let found = match files.find(|path| path.file_stem().is_some_and(|stem| stem == id)) {
            Some(path) => read(&path)?,
            None => {
                let mut newest_first = self.all()?.0.into_iter().rev();
                newest_first.find(|record| record.event_id.as_deref() == Some(id))
            }
        };
        found.ok_or_else(|| {
            Failure::new(
                Kind::NotFound,
                format!("no recorded delivery has the id `{id}`"),
            )
            .hint("svc listen records deliveries and prints their ids")
        })
    }

    /// All deliveries that are readable, oldest first, and what is wrong with the others. Their ids are
    /// UUIDv7, so their order is that of time.
    pub fn all(&self) -> Result<(Vec<RecordedDelivery>, Vec<String>), Failure> {
        let mut files = self.files()?;
        files.sort();
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for path in files {
            match read(&path) {
                Ok(record) => found.extend(record),
                Err(failure) => problems.push(failure.message.clone()),
            }
        }

        Ok((found, problems))
    }

    /// Removes records older than [`RETENTION`].
    pub fn remove_expired(&self) -> Result<(), Failure> {
        for path in self.files()? {
            let age = fs::metadata(&path)
                .and_then(|it| it.modified())
                .map(|at| at.elapsed());
            if age.is_ok_and(|age| age.is_ok_and(|age| age > RETENTION)) {
                // Another session may have removed it first.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::other(format!("{}: {error}", self.0.display()))),
        };
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(files
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .collect())
    }

    fn path(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }
}

/// The record in a file; `None` if another session has removed it.
fn read(path: &Path) -> Result<Option<RecordedDelivery>, Failure> {
    let corrupt =
        |why: String| Failure::other(format!("{}: the record is corrupt: {why}", path.display()));
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| corrupt(json_problem(&error))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(corrupt(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(body: &[u8]) -> RecordedDelivery {
        RecordedDelivery::new("email", None, &HeaderMap::new(), body)
    }

    #[test]
    fn bodies_round_trip_byte_for_byte_in_order_of_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = RecordedDeliveries::in_dir(dir.path());
        let bodies: [&[u8]; 3] = [b"{\"a\": 1}\r\n", &[0, 159, 146, 150], b""];
        for body in bodies {
            records.store(&email(body)).expect("stored");
        }

        let (found, _) = records.all().expect("read");
        let read = found
            .iter()
            .map(|record| record.body().expect("bytes"))
            .collect::<Vec<_>>();
        assert_eq!(read, bodies.map(<[u8]>::to_vec));
    }

    #[test]
    fn ids_cannot_escape_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("rec_x.json"), "{}").expect("written");
        let records = RecordedDeliveries::in_dir(dir.path());
        for id in ["../rec_x", "rec_../rec_x", "rec_", "x"] {
            assert_eq!(
                records.get(id).err().map(|e| e.kind()),
                Some(Kind::NotFound)
            );
        }
    }

    #[test]
    fn lookup_by_event_id_returns_the_newest_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = RecordedDeliveries::in_dir(dir.path());
        let record = || RecordedDelivery {
            event_id: Some("e1".to_owned()),
            ..email(b"{}")
        };

        let first = record();
        let second = record();
        for record in [&first, &second] {
            records.store(record).expect("stored");
        }

        assert_eq!(records.get("e1").expect("found").id, second.id);
        assert_eq!(records.get(&first.id).expect("found").id, first.id);
    }

    #[test]
    fn expired_records_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = RecordedDeliveries::in_dir(dir.path());
        let old = email(b"{}");
        let new = email(b"{}");
        for record in [&old, &new] {
            records.store(record).expect("stored");
        }

        let file = fs::File::options()
            .write(true)
            .open(records.path(&old.id))
            .expect("there");
        file.set_modified(std::time::SystemTime::now() - 2 * RETENTION)
            .expect("set");
        records.remove_expired().expect("removed");
        let (left, _) = records.all().expect("read");
        assert_eq!(
            left.iter().map(|record| &record.id).collect::<Vec<_>>(),
            [&new.id]
        );
    }

    #[cfg(unix)]
    #[test]
    fn records_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("a directory");
        let records = RecordedDeliveries::in_dir(dir.path());
        let record = email(b"{}");
        records.store(&record).expect("stored");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(&records.path(&record.id)), mode(&records.0)),
            (0o600, 0o700)
        );
    }
}
