//! Opens the database with the settings that durability and file privacy rely on.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::data_dir;
use super::lock::lock;
use super::threads::{Queue, Threads};

const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema, in `PRAGMA user_version`. There are no migrations before the first
/// release.
const VERSION: u32 = 10;

/// Why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The database has another schema. It was not changed.
    #[error(
        "{path} is not a database of this version of svc (schema version {found}; this version \
         reads {VERSION}) and was not changed; move the data directory away, or use another one"
    )]
    OtherSchema { path: PathBuf, found: u32 },
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
    if found != 0 && found != VERSION {
        return Err(OpenError::OtherSchema {
            path: path.to_owned(),
            found,
        });
    }
    // A new file holds no data that could be lost. The first durable commit syncs the
    // schema as well.
    connection.pragma_update(None, "synchronous", if found == 0 { "OFF" } else { "FULL" })?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // In pages of 4 KiB: under load, a page that is written again and again is copied from the log to
    // the database, and synced, once in 32 MiB of log.
    connection.pragma_update(None, "wal_autocheckpoint", 8_000)?;
    // In KiB, if it is negative: a transaction of many emails stays in memory until it is committed.
    connection.pragma_update(None, "cache_size", -8_000)?;
    // Truncates the log after a burst of writes.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    prepare(&connection)?;
    if found == 0 {
        sync_new_file(path)?;
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Deletes the oldest emails that have ended, and the oldest received messages, beyond `keep` of each.
/// It takes time to find them, so they are looked for once in `keep` / 16 new ones. The triggers
/// belong to this connection, and end with it.
pub(super) fn keep_newest(connection: &Connection, keep: u32) -> rusqlite::Result<()> {
    let every = (keep / 16).max(1);
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE stored (emails INTEGER NOT NULL, messages INTEGER NOT NULL);
         INSERT INTO stored VALUES (0, 0);
         CREATE TEMP TRIGGER count_emails AFTER INSERT ON main.email BEGIN
             UPDATE stored SET emails = (emails + 1) % {every};
         END;
         CREATE TEMP TRIGGER keep_emails AFTER INSERT ON main.email
         WHEN (SELECT emails FROM stored) = 0 BEGIN
             DELETE FROM email WHERE status NOT IN ('queued', 'sending', 'sent') AND id <=
                 (SELECT id FROM email ORDER BY id DESC LIMIT 1 OFFSET {keep});
         END;
         CREATE TEMP TRIGGER count_messages AFTER INSERT ON main.message WHEN NEW.email IS NULL BEGIN
             UPDATE stored SET messages = (messages + 1) % {every};
         END;
         CREATE TEMP TRIGGER keep_messages AFTER INSERT ON main.message
         WHEN NEW.email IS NULL AND (SELECT messages FROM stored) = 0 BEGIN
             DELETE FROM message WHERE email IS NULL AND id <= (SELECT id FROM message
                 WHERE email IS NULL ORDER BY id DESC LIMIT 1 OFFSET {keep});
         END;"
    ))
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
    if version(connection)? == 0 {
        let create = format!("BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;");
        connection.execute_batch(&create)?;
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
    fn rejects_an_unknown_database_and_leaves_it_unchanged() {
        for version in [VERSION + 1, 99] {
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
            assert!(text.contains("move the data directory away"), "{text}");
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
