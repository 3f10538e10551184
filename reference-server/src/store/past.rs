//! What the database knows of the time: a server that starts on it goes on from
//! there, whatever has happened to the system's clock meanwhile.

use rusqlite::Connection;

use super::find;
use crate::clock::Clock;
use crate::id;
use crate::time::Millis;

/// The newest of everything that comes in numbers and is listed newest first.
const NEWEST: [&str; 3] = [
    "SELECT id, created_at FROM email ORDER BY id DESC LIMIT 1",
    "SELECT id, created_at FROM delivery ORDER BY id DESC LIMIT 1",
    "SELECT message.id, message.created_at FROM organization CROSS JOIN message
     ON message.organization = seq
         AND message.id = (SELECT MAX(id) FROM message WHERE organization = seq)
     ORDER BY message.id DESC LIMIT 1",
];

/// Makes identifiers follow those that there are, and the clock go on from the
/// latest time that something was written at.
pub(crate) fn follow(connection: &Connection, clock: &Clock) -> rusqlite::Result<()> {
    for newest in NEWEST {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let found: Option<(String, Millis)> = find(connection, newest, [], read)?;
        if let Some((newest, at)) = found {
            id::follow(&newest);
            clock.reach(at);
        }
    }
    Ok(())
}
