//! The signing secrets of the sessions of `svc listen`: a file for each session, with mode 0600, so
//! that `svc replay` signs every delivery as it was signed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use uuid::Uuid;

use super::{RETENTION, write_private};
use crate::failure::Failure;

/// The file with the secret of a running session.
pub struct SessionSecret {
    path: PathBuf,
    secret: Vec<u8>,
}

impl SessionSecret {
    pub fn store(data_dir: &Path, service: &str, secret: &[u8]) -> Result<Self, Failure> {
        // The order of the names is that of the sessions.
        let path = data_dir.join(format!("listen-{service}-{}.secret", Uuid::now_v7().simple()));
        write_private(&path, secret)?;
        Ok(Self { path, secret: secret.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file as new as a record that needs it, so that it is not removed earlier.
    pub fn touch(&self) -> Result<(), Failure> {
        let touched = fs::OpenOptions::new()
            .write(true)
            .open(&self.path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        match touched {
            // Another session removed it, because this one had no delivery for very long.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                write_private(&self.path, &self.secret)
            }
            // Without the new time, the file is only removed earlier.
            _ => Ok(()),
        }
    }
}

/// The file with the secret of the newest session.
pub fn newest(data_dir: &Path, service: &str) -> Option<PathBuf> {
    let start = format!("listen-{service}-");
    let named = |path: &PathBuf| path.file_name()?.to_str()?.starts_with(&start).then_some(());
    files(data_dir).filter(|path| named(path).is_some()).max()
}

/// Removes the secrets of which every record has expired.
pub fn remove_expired(data_dir: &Path) {
    let retention = RETENTION.to_std().unwrap_or_default();
    for path in files(data_dir) {
        let age = path.metadata().and_then(|file| file.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > retention) {
            // Another session may have removed it first.
            let _ = fs::remove_file(path);
        }
    }
}

fn files(data_dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(data_dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("listen-") && name.ends_with(".secret")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_a_file_that_lives_as_long_as_its_records() {
        let dir = tempfile::tempdir().expect("a directory");
        let store =
            |secret: &[u8]| SessionSecret::store(dir.path(), "email", secret).expect("stored");
        let (first, second) = (store(b"one"), store(b"two"));
        assert_eq!(newest(dir.path(), "email").as_deref(), Some(second.path()));
        assert_eq!(newest(dir.path(), "extraction"), None);
        let old = SystemTime::now() - (RETENTION.to_std().expect("positive") * 2);
        for session in [&first, &second] {
            let file = fs::OpenOptions::new().write(true).open(session.path()).expect("open");
            file.set_modified(old).expect("set");
        }
        second.touch().expect("touched");
        remove_expired(dir.path());
        assert!(!first.path().exists() && second.path().exists());
        first.touch().expect("written again");
        assert_eq!(fs::read(first.path()).expect("read"), b"one");
    }
}
