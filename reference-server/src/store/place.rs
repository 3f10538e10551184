//! Whether the database is still where it was opened. A file that was removed or
//! replaced under a running server can be written to as before, and all of it is
//! lost: nothing may be answered 2xx any more.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct Place {
    path: PathBuf,
    identity: Identity,
}

impl Place {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&path.metadata()?) })
    }

    pub(super) fn is_there(&self) -> bool {
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

/// Redirected an open file cannot be removed.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
