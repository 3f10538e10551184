//! The table `due`: work that the engine does in steps, in the order of its time.

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::store::{Reader, Tx};

/// Scheduled work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Sends an email.
    Email(String),
    /// Delivers to a recipient that stays in `sending` for a while.
    Recipient { email: String, position: usize },
}

impl Due {
    /// The columns `kind`, `email` and `position`.
    fn columns(&self) -> (i64, &str, i64) {
        match self {
            Self::Email(email) => (1, email, 0),
            Self::Recipient { email, position } => (2, email, *position as i64),
        }
    }

    fn from_columns(kind: i64, email: String, position: i64) -> Option<Self> {
        let position = usize::try_from(position).ok()?;
        match kind {
            1 => Some(Self::Email(email)),
            2 => Some(Self::Recipient { email, position }),
            _ => None,
        }
    }
}

/// Schedules work.
pub(crate) fn add(tx: &mut Tx<'_>, at: Millis, due: &Due) -> Result<(), ApiError> {
    let (kind, email, position) = due.columns();
    tx.execute("INSERT OR IGNORE INTO due VALUES (?1, ?2, ?3, ?4)", (at, kind, email, position))?;
    tx.step_due(at);
    Ok(())
}

/// Removes scheduled work before it is due.
pub(crate) fn cancel(tx: &mut Tx<'_>, at: Millis, due: &Due) -> Result<(), ApiError> {
    done(tx, at, due)?;
    tx.recheck_due();
    Ok(())
}

impl Due {
    /// Identifies the work in text without white space.
    pub(crate) fn id(&self, at: Millis) -> String {
        let (kind, email, position) = self.columns();
        format!("{at}:{kind}:{position}:{email}")
    }

    fn from_id(id: &str) -> Option<(Millis, Self)> {
        let mut parts = id.splitn(4, ':');
        let mut number = || parts.next()?.parse::<i64>().ok();
        let (at, kind, position) = (number()?, number()?, number()?);
        Some((at, Self::from_columns(kind, parts.next()?.to_owned(), position)?))
    }
}

/// The email that the work with this id is about.
pub(super) fn email_of(id: &str) -> Option<String> {
    let (_, Due::Email(email) | Due::Recipient { email, .. }) = Due::from_id(id)?;
    Some(email)
}

/// Removes work that cannot be done; an email that cannot be sent has failed.
pub(super) fn set_aside(tx: &Tx<'_>, id: &str) -> Result<(), ApiError> {
    let Some((at, work)) = Due::from_id(id) else { return Ok(()) };
    done(tx, at, &work)?;
    if let Due::Email(email) = work {
        let sql = "UPDATE email SET status = 'failed', due_at = NULL, updated_at = ?2
                   WHERE id = ?1";
        tx.execute(sql, (email, tx.now))?;
    }
    Ok(())
}

/// Removes work that is done.
pub(crate) fn done(tx: &Tx<'_>, at: Millis, due: &Due) -> Result<(), ApiError> {
    let (kind, email, position) = due.columns();
    let sql = "DELETE FROM due WHERE at = ?1 AND kind = ?2 AND email = ?3 AND position = ?4";
    tx.execute(sql, (at, kind, email, position))?;
    Ok(())
}

/// Removes all scheduled work of an email. `send_at` is when it is sent, if it is queued.
pub(super) fn delete(tx: &Tx<'_>, email: &str, send_at: Option<Millis>) -> Result<(), ApiError> {
    if let Some(at) = send_at {
        done(tx, at, &Due::Email(email.to_owned()))?;
    }
    tx.execute("DELETE FROM due WHERE kind = 2 AND email = ?1", [email])?;
    Ok(())
}

/// The work that is due up to `until`, earliest first.
pub(crate) fn list(
    tx: &Tx<'_>,
    until: Millis,
    limit: usize,
) -> Result<Vec<(Millis, Due)>, ApiError> {
    let mut statement = tx.statement(
        "SELECT at, kind, email, position FROM due WHERE at <= ?1
         ORDER BY at, kind, email, position LIMIT ?2",
    )?;
    let mut rows = statement.query((until, limit as i64))?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        match Due::from_columns(row.get(1)?, row.get(2)?, row.get(3)?) {
            Some(work) => due.push((row.get(0)?, work)),
            None => return Err(ApiError::internal("the table `due` has an unknown kind of work")),
        }
    }
    Ok(due)
}

/// The earliest time of scheduled work.
pub(crate) fn next(tx: &Tx<'_>) -> Result<Option<Millis>, ApiError> {
    Ok(tx.find("SELECT at FROM due ORDER BY at LIMIT 1", [], |row| row.get(0))?)
}

/// Counts the scheduled work.
pub(crate) fn count(reader: Reader<'_>) -> Result<i64, ApiError> {
    let count = reader.find("SELECT COUNT(*) FROM due", [], |row| row.get(0))?;
    Ok(count.unwrap_or(0))
}
