//! The versions of the schema. `schema.sql` is the newest one; each file of `migrations/` leads from one
//! version to the next. A database is upgraded when it is opened: one transaction, after a copy of the
//! file was put beside it. A change of the schema is a new file here, and a dump of a database of
//! the version before it in `tests/it/migrations/`.

use std::path::Path;

use rusqlite::Connection;

use super::data_dir::create_private_file;

const SCHEMA: &str = include_str!("schema.sql");

/// The version that `schema.sql` has, in `PRAGMA user_version`.
pub(super) const VERSION: u32 = 10;

/// The first version that was in a package. What came before cannot be upgraded.
pub(super) const OLDEST: u32 = 9;

/// The steps from each version to the next, beginning with [`OLDEST`].
const STEPS: [&str; (VERSION - OLDEST) as usize] = [include_str!("migrations/10.sql")];

/// Creates the tables in an empty database.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
    ))
}

/// Upgrades the database at `path`, which has the schema `found`. If it fails, the database is as it
/// was.
pub(super) fn upgrade(connection: &Connection, path: &Path, found: u32) -> rusqlite::Result<()> {
    let copy = copy(connection, path, found)?;

    let steps = STEPS[(found - OLDEST) as usize..].concat();
    let upgraded = connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION}; COMMIT;"
    ));
    if let Err(error) = upgraded {
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        return Err(error);
    }

    tracing::info!(
        from = found,
        to = VERSION,
        copy,
        "the database was upgraded"
    );

    // It needs as much space again, which a small disk does not have.
    if let Err(error) = make_shrinkable(connection) {
        tracing::warn!(%error, "the database file will not shrink");
    }
    Ok(())
}

/// Copies the database to a file beside it, whose name it returns.
fn copy(connection: &Connection, path: &Path, found: u32) -> rusqlite::Result<String> {
    let copy = path.with_extension(format!("v{found}.db"));
    let is_unwritable = |error: std::io::Error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(format!("{}: {error}", copy.display())))
    };

    // That of an upgrade which failed, and may be incomplete.
    if copy.exists() {
        std::fs::remove_file(&copy).map_err(is_unwritable)?;
    }
    create_private_file(&copy).map_err(is_unwritable)?;

    let copy = copy.to_string_lossy().into_owned();
    connection.execute("VACUUM INTO ?1", [&copy])?;
    Ok(copy)
}

/// Lets an older file give back its free pages, as new ones do. Only this rewrites the file.
fn make_shrinkable(connection: &Connection) -> rusqlite::Result<()> {
    let mode: u32 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    const INCREMENTAL: u32 = 2;
    if mode == INCREMENTAL {
        return Ok(());
    }
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.execute_batch("VACUUM")
}
