//! Detects that the database file was removed or replaced while the server runs. Writes
//! to such a file succeed but are lost, so the server must not confirm them.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct FileIdentity {
    path: PathBuf,
    identity: Identity,
}

impl FileIdentity {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&path.metadata()?) })
    }

    /// The database file, and the files next to it that must stay: the write-ahead log,
    /// which holds recent commits, and the lock, which keeps other servers away.
    pub(super) fn of_all(database: &Path) -> io::Result<Vec<Self>> {
        let others = [database.with_extension("db-wal"), database.with_file_name("server.lock")];
        let mut files = vec![Self::of(database)?];
        files.extend(others.iter().filter_map(|path| Self::of(path).ok()));
        Ok(files)
    }

    pub(super) fn is_present(&self) -> bool {
        self.path.metadata().is_ok_and(|found| identity(&found) == self.identity)
    }
}

#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (file.dev(), file.ino())
}

/// Other systems do not allow removing an open file.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
