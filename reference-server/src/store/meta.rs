//! The table `meta`: what is known about the database as a whole.

use rusqlite::Connection;

use crate::model::clock::ClockMode;
use crate::model::error::ApiError;
use crate::store::{self, Tx};

/// The saved state of the clock.
pub(crate) fn clock(connection: &Connection) -> rusqlite::Result<Option<ClockMode>> {
    let sql = "SELECT value FROM meta WHERE key = 'clock'";
    let mode = store::find(connection, sql, [], |row| row.get::<_, String>(0))?;
    Ok(mode.as_deref().and_then(ClockMode::from_text))
}

/// Saves the state of the clock, so that it continues from there after a restart.
///
/// Deletes and inserts the row: SQLite skips the write if an update changes nothing, and
/// would then not report a full disk.
pub(crate) fn set_clock(tx: &Tx<'_>, mode: ClockMode) -> Result<(), ApiError> {
    delete_clock(tx)?;
    tx.execute("INSERT INTO meta VALUES ('clock', ?1)", [mode.to_text()])?;
    Ok(())
}

pub(super) fn delete_clock(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM meta WHERE key = 'clock'", [])?;
    Ok(())
}

/// Returns `true` the first time that it is called for this database.
pub(crate) fn is_new(tx: &Tx<'_>) -> Result<bool, ApiError> {
    if tx.find("SELECT 1 FROM meta WHERE key = 'seeded'", [], |_| Ok(()))?.is_some() {
        return Ok(false);
    }
    tx.execute("INSERT INTO meta VALUES ('seeded', '1')", [])?;
    Ok(true)
}

/// Fails if the database cannot be read.
pub(crate) fn check(connection: &Connection) -> Result<(), ApiError> {
    Ok(connection.query_row("SELECT 1", [], |_| Ok(()))?)
}
