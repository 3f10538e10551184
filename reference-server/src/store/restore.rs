//! Restores the clock and the id generator from the newest rows of the database, so
//! that a restarted server continues from its last state even if the system clock was
//! set back.

use rusqlite::Connection;

use super::tx::find;
use crate::model::clock::Clock;
use crate::model::id;
use crate::model::time::Millis;

/// The newest row of each large table that is listed newest first.
const NEWEST: [&str; 3] = [
    "SELECT id, created_at FROM email ORDER BY id DESC LIMIT 1",
    "SELECT id, created_at FROM delivery ORDER BY id DESC LIMIT 1",
    "SELECT message.id, message.created_at FROM organization CROSS JOIN message
     ON message.organization = seq
         AND message.id = (SELECT MAX(id) FROM message WHERE organization = seq)
     ORDER BY message.id DESC LIMIT 1",
];

/// Makes new ids sort after the stored ones, and moves the clock to the latest stored
/// time.
pub(crate) fn restore_clock_and_ids(
    connection: &Connection,
    clock: &Clock,
) -> rusqlite::Result<()> {
    for newest in NEWEST {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let found: Option<(String, Millis)> = find(connection, newest, [], read)?;
        if let Some((newest, at)) = found {
            id::advance_past(&newest);
            clock.advance_to(at);
        }
    }
    Ok(())
}
