//! Opens the database, with the settings that durability and file privacy rely on: `file` for the
//! writer, `reader` for the threads that read, `memory` for a server without a data directory. A
//! database of a newer version or of another program is not changed, and one that is older is
//! upgraded in `migrations.rs`. When `file` returns, commits are `synchronous=FULL`. The threads
//! that use the connections are in `store.rs`.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::data_dir;
use super::lock::lock;
use super::migrations::{self, OLDEST, VERSION};
use super::search;
use super::threads::{Queue, Threads};

/// Why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The database was written by a newer version. It was not changed.
    #[error(
        "{path} was written by a newer svc (schema version {found}; this version reads up to \
         {VERSION}) and was not changed; use that svc, or another data directory"
    )]
    Newer { path: PathBuf, found: u32 },
    /// The database is older than what migrations begin with, or of another program. It was not
    /// changed.
    #[error(
        "{path} is not a database that this version of svc can upgrade (schema version {found}; it \
         reads {OLDEST} to {VERSION}) and was not changed; move the data directory away, or use \
         another one"
    )]
    Foreign { path: PathBuf, found: u32 },
    /// An upgrade failed. The database is as it was.
    #[error("{path} cannot be upgraded and was not changed: {source}{hint}", hint = hint(.source))]
    NotUpgraded {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("{0}{hint}", hint = hint(.0))]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// On a disk that is completely full, SQLite reports an I/O failure.
fn hint(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
    match error.sqlite_error_code() {
        Some(DiskFull | SystemIoFailure) => " (is the disk full?)",
        _ => "",
    }
}

/// Opens the file, creating it if it is missing. A database with another schema is left unchanged.
pub(super) fn file(path: &Path) -> Result<Connection, OpenError> {
    data_dir::create_private_file(path)?;
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let found = version(&connection)?;
    if found > VERSION {
        let path = path.to_owned();
        return Err(OpenError::Newer { path, found });
    }
    if found != 0 && found < OLDEST {
        let path = path.to_owned();
        return Err(OpenError::Foreign { path, found });
    }

    // A new file holds no data that could be lost. The first durable commit syncs the
    // schema as well.
    connection.pragma_update(None, "synchronous", if found == 0 { "OFF" } else { "FULL" })?;
    if found == 0 {
        // Free pages can be given back. This must be set before there is a table.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // In pages of 4 KiB: under load, a page that is written again and again is copied from the log to
    // the database, and synced, once in 32 MiB of log.
    connection.pragma_update(None, "wal_autocheckpoint", 8_000)?;
    // In KiB, if it is negative: a transaction of many emails stays in memory until it is committed.
    connection.pragma_update(None, "cache_size", -8_000)?;
    // Truncates the log after a burst of writes.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    if found != 0 && found < VERSION {
        migrations::upgrade(&connection, path, found).map_err(|source| OpenError::NotUpgraded {
            path: path.to_owned(),
            source,
        })?;
    }

    prepare(&connection)?;
    if found == 0 {
        sync_new_file(path)?;
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Makes the new database file durable. SQLite discards the write-ahead log of an empty
/// or missing file, and until the first checkpoint the log is the only place that holds
/// the committed data.
fn sync_new_file(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()?;
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Opens an in-memory database, which ends with its connection.
pub(super) fn memory() -> Result<Connection, OpenError> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    prepare(&connection)?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    keep_plans(&connection)?;
    search::define(&connection)?;
    // The first read opens the files next to the database.
    version(&connection)?;
    Ok(connection)
}

/// Starts the thread that copies the log into the database while the writer goes on, under load. Then
/// the writer itself copies little, when it begins the log anew.
pub(super) fn copier(path: &Path) -> Result<Threads<()>, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    version(&connection)?;
    let run = move |queue: Queue<()>| {
        while lock(&queue).recv().is_ok() {
            let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            if let Err(error) = copied {
                tracing::warn!(%error, "the log is not copied into the database");
            }
        }
    };

    Ok(Threads::start("svc-checkpoint", [run])?)
}

/// Limits the size of the database, in bytes.
pub(super) fn limit_size(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = (bytes / u64::from(page)).max(1);
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(256);
    keep_plans(connection)?;
    search::define(connection)?;
    if version(connection)? == 0 {
        migrations::create(connection)?;
    }
    connection.pragma_update(None, "foreign_keys", "ON")
}

/// A prepared statement keeps its plan. Otherwise SQLite compiles it again for each new value that
/// it compares with the column of a partial index.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_database_of_a_newer_version_and_of_another_program_and_leaves_it_unchanged() {
        let newer = "was written by a newer svc";
        for (version, problem) in [
            (VERSION + 1, newer),
            (99, newer),
            (OLDEST - 1, "can upgrade"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("svc.db");
            drop(file(&path).unwrap());
            let connection = Connection::open(&path).unwrap();
            connection
                .pragma_update(None, "user_version", version)
                .unwrap();
            drop(connection);
            let before = std::fs::read(&path).unwrap();

            let error = file(&path).unwrap_err();

            let text = error.to_string();
            assert!(
                text.contains(&format!("(schema version {version};")),
                "{text}"
            );
            assert!(text.contains(problem), "{text}");
            assert_eq!(std::fs::read(&path).unwrap(), before);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    /// A confirmed commit must be on disk.
    #[test]
    fn commits_are_fully_synced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("svc.db");
        for _ in 0..2 {
            let connection = file(&path).unwrap();
            let level = connection.query_row("PRAGMA synchronous", [], |row| row.get(0));
            assert_eq!(level, Ok(2), "FULL");
        }
    }

    #[test]
    fn reopening_keeps_the_data() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("svc.db");
        file(&path)
            .unwrap()
            .execute("INSERT INTO meta VALUES ('a', 'b')", [])
            .unwrap();
        let kept: String = file(&path)
            .unwrap()
            .query_row("SELECT value FROM meta WHERE key = 'a'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(kept, "b");
    }
}
