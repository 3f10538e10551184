//! Numbered forward migrations: the database's `user_version` is how many of
//! them it has had.

use rusqlite::Connection;

const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_initial.sql")];

/// The version that this program reads and writes.
pub(super) const CURRENT: u32 = MIGRATIONS.len() as u32;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings an older database up to date, one transaction for each step.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let from = version(connection)?;
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(from as usize) {
        let version = index + 1;
        connection
            .execute_batch(&format!("BEGIN; {sql} PRAGMA user_version = {version}; COMMIT;"))?;
    }
    Ok(())
}
