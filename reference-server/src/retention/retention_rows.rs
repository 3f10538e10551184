//! Deletes what is old, or more than is kept: emails, received messages, and the
//! deliveries that are about neither. What is still due stays.

use rusqlite::ToSql;

use crate::model::Result;
use crate::settings::Keep;
use crate::store::{Reader, Tx};

/// How many rows one transaction deletes.
const AT_ONCE: u32 = 500;

/// A table from which old rows are deleted.
struct Kept {
    table: &'static str,
    /// Which of its rows are meant.
    rows: &'static str,
    /// Which of these can go.
    has_ended: &'static str,
}

const KEPT: [Kept; 3] = [
    Kept {
        table: "email",
        rows: "TRUE",
        has_ended: "status NOT IN ('queued', 'sending', 'sent')
                    AND NOT EXISTS (SELECT 1 FROM job WHERE subject = email.id)
                    AND NOT EXISTS (SELECT 1 FROM delivery
                                    WHERE email = email.id AND state = 'pending')",
    },
    Kept {
        table: "message",
        rows: "email IS NULL",
        has_ended: "NOT EXISTS (SELECT 1 FROM job WHERE queue = 'received' AND subject = message.id)",
    },
    Kept {
        table: "delivery",
        rows: "email IS NULL",
        has_ended: "state <> 'pending'",
    },
];

/// The numbers of all organizations.
pub(crate) fn organizations(reader: Reader<'_>) -> Result<Vec<i64>> {
    reader.all("SELECT number FROM organization", [], |row| row.get(0))
}

/// Deletes some of what is not kept. Returns whether there may be more of it.
pub(crate) fn delete_some(tx: &Tx<'_>, organization: i64, keep: Keep) -> Result<bool> {
    let mut is_more = false;
    for kept in &KEPT {
        if let Some(newest) = keep.newest {
            let last = last_beyond(tx.reader(), kept, organization, newest)?;
            is_more |= delete(tx, kept, organization, "id <= ?2", &last)?;
        }
        if let Some(duration) = keep.duration {
            let oldest = tx.now.saturating_sub(duration);
            is_more |= delete(tx, kept, organization, "created_at < ?2", &oldest)?;
        }
    }
    Ok(is_more)
}

/// The newest of the rows that are beyond the number that is kept.
fn last_beyond(
    reader: Reader<'_>,
    Kept { table, rows, .. }: &Kept,
    organization: i64,
    newest: u32,
) -> Result<Option<String>> {
    let sql = format!(
        "SELECT id FROM {table} WHERE organization = ?1 AND {rows}
         ORDER BY id DESC LIMIT 1 OFFSET ?2"
    );
    Ok(reader.find(&sql, (organization, newest), |row| row.get(0))?)
}

fn delete(
    tx: &Tx<'_>,
    Kept {
        table,
        rows,
        has_ended,
    }: &Kept,
    organization: i64,
    older: &str,
    limit: &dyn ToSql,
) -> Result<bool> {
    let sql = format!(
        "DELETE FROM {table} WHERE id IN
             (SELECT id FROM {table} WHERE organization = ?1 AND {rows} AND {older} AND {has_ended}
              ORDER BY id LIMIT {AT_ONCE})"
    );
    Ok(tx.execute(&sql, (organization, limit))? == AT_ONCE as usize)
}
