//! Restores the clock and the id generator from the newest rows of the database, so
//! that a restarted server continues from its last state even if the system clock was
//! set back.

use super::meta;
use super::reader::Reader;
use crate::model::clock::{Clock, ClockMode};
use crate::model::id;
use crate::model::time::Millis;

/// The newest row of each large table that is listed newest first. What was deleted, and is not
/// removed yet, belongs to no organization.
const NEWEST: [&str; 3] = [
    "SELECT id, created_at FROM email WHERE id =
         (SELECT MAX((SELECT MAX(id) FROM email WHERE organization = seq)) FROM organization)",
    "SELECT id, created_at FROM delivery WHERE id =
         (SELECT MAX((SELECT MAX(id) FROM delivery WHERE organization = seq)) FROM organization)",
    "SELECT message.id, message.created_at FROM organization CROSS JOIN message
     ON message.organization = seq
         AND message.id = (SELECT MAX(id) FROM message WHERE organization = seq)
     ORDER BY message.id DESC LIMIT 1",
];

/// Makes new ids sort after the stored ones, and returns a clock that continues from the
/// latest stored time.
pub(super) fn restore_clock_and_ids(reader: Reader<'_>) -> rusqlite::Result<Clock> {
    let clock = Clock::new(meta::clock(reader)?.unwrap_or(ClockMode::Running { offset: 0 }));
    for newest in NEWEST {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let found: Option<(String, Millis)> = reader.find(newest, [], read)?;
        if let Some((newest, at)) = found {
            id::advance_past(&newest);
            clock.advance_to(at);
        }
    }
    Ok(clock)
}
