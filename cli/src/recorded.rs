//! Deliveries that `svc listen` received, kept so that `svc replay` can send
//! them again: a file each, readable by its owner alone.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

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
            id: format!("rec_{}", uuid::Uuid::now_v7().simple()),
            received_at: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            service: service.to_owned(),
            event,
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

    /// One delivery by its id.
    pub fn get(&self, id: &str) -> Result<Recorded, Failure> {
        let known = id.strip_prefix("rec_").is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        let none = || {
            Failure::new(crate::failure::Kind::NotFound, format!("no delivery `{id}` is recorded"))
                .hint("svc listen records deliveries and shows their ids")
        };
        if !known {
            return Err(none());
        }
        let text = fs::read(self.path(id)).map_err(|_| none())?;
        serde_json::from_slice(&text)
            .map_err(|_| Failure::other(format!("the record {id} is damaged")))
    }

    /// Every delivery since an instant, oldest first: ids are in the order of time.
    pub fn since(&self, instant: chrono::DateTime<chrono::Utc>) -> Result<Vec<Recorded>, Failure> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(Vec::new()) };
        let mut ids = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .collect::<Vec<_>>();
        ids.sort();
        let mut found = Vec::new();
        for id in ids {
            let record = self.get(&id)?;
            let at = chrono::DateTime::parse_from_rfc3339(&record.received_at);
            if at.is_ok_and(|at| at >= instant) {
                found.push(record);
            }
        }
        Ok(found)
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
    // A new file, so that an old one's looser mode is not kept.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).and_then(|mut file| file.write_all(content)).map_err(failed)
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
        let found = records.since(chrono::DateTime::UNIX_EPOCH).expect("read");
        let read = found.iter().map(|r| r.body().expect("bytes")).collect::<Vec<_>>();
        assert_eq!(read, bodies.map(<[u8]>::to_vec));
        assert!(
            records
                .since(chrono::Utc::now() + chrono::TimeDelta::hours(1))
                .expect("read")
                .is_empty()
        );
    }

    #[test]
    fn an_id_cannot_leave_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("rec_x.json"), "{}").expect("written");
        let records = Records::in_dir(dir.path());
        for id in ["../rec_x", "rec_../rec_x", "rec_", "x"] {
            assert_eq!(
                records.get(id).err().map(|e| e.kind()),
                Some(crate::failure::Kind::NotFound)
            );
        }
    }
}
