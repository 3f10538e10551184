//! Detects that the database file was removed or replaced while the server runs. Writes
//! to such a file succeed but are lost, so the server must not confirm them.

use std::path::{Path, PathBuf};

/// Files that must stay, by their device and their number in it.
#[derive(Default)]
pub(super) struct Files(Vec<(PathBuf, (u64, u64))>);

impl Files {
    /// The database file, and those next to it: the write-ahead log, which holds recent commits, and
    /// the lock, which keeps other servers away.
    pub(super) fn of(database: &Path) -> Self {
        let others = [
            database.with_extension("db-wal"),
            database.with_file_name("server.lock"),
        ];
        let files = others.into_iter().chain([database.to_owned()]);
        Self(
            files
                .filter_map(|path| identity(&path).map(|found| (path, found)))
                .collect(),
        )
    }

    pub(super) fn are_present(&self) -> bool {
        self.0
            .iter()
            .all(|(path, known)| identity(path) == Some(*known))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// Other systems do not allow removing an open file.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}
