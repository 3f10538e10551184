//! The table `meta`: what is known about the database as a whole.

use rusqlite::Connection;

use super::rows::{Json, json};
use super::tx::{Reader, Tx};
use crate::jobs::clock::{Clock, ClockMode};
use crate::model::{Millis, Result, id};

/// The newest row of each large table.
const NEWEST: [&str; 3] = [
    "SELECT id, created_at FROM email ORDER BY id DESC LIMIT 1",
    "SELECT id, created_at FROM delivery ORDER BY id DESC LIMIT 1",
    "SELECT id, created_at FROM message ORDER BY id DESC LIMIT 1",
];

/// Makes new ids sort after the stored ones, and returns a clock that continues from the latest
/// stored time, even if the system clock was set back.
pub(crate) fn restore_clock_and_ids(reader: Reader<'_>) -> rusqlite::Result<Clock> {
    const REAL: ClockMode = ClockMode::Running { offset: 0 };

    let saved = clock(reader)?;
    let clock = Clock::new(saved.unwrap_or(REAL));
    for newest in NEWEST {
        let found: Option<(String, Millis)> =
            reader.find(newest, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((newest, at)) = found {
            id::advance_past(&newest);
            // On request, it is behind the stored times.
            if saved != Some(REAL) {
                clock.advance_to(at);
            }
        }
    }
    Ok(clock)
}

/// The saved state of the clock.
fn clock(reader: Reader<'_>) -> rusqlite::Result<Option<ClockMode>> {
    let sql = "SELECT value FROM meta WHERE key = 'clock'";
    reader.find(sql, [], |row| json(row, 0))
}

/// Saves the state of the clock, so that it continues from there after a restart.
///
/// Deletes and inserts the row: SQLite skips the write if an update changes nothing, and
/// would then not report a full disk.
pub(crate) fn set_clock(tx: &Tx<'_>, mode: ClockMode) -> Result<()> {
    delete_clock(tx)?;
    tx.execute("INSERT INTO meta VALUES ('clock', ?1)", [Json(mode)])?;
    Ok(())
}

/// Saves the time that an advance has reached, with the work that was done at it.
pub(crate) fn save_clock(connection: &Connection, mode: ClockMode) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('clock', ?1)")?
        .execute([Json(mode)])?;
    Ok(())
}

pub(crate) fn delete_clock(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM meta WHERE key = 'clock'", [])?;
    Ok(())
}

/// Fails if the database cannot be read.
pub(crate) fn check(reader: Reader<'_>) -> Result<()> {
    reader.find("SELECT 1", [], |_| Ok(()))?;
    Ok(())
}
