//! The table `organization`.

use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::store::{Reader, Tx};

/// The name of the seeded organization.
pub(crate) const SANDBOX: &str = "Sandbox";

pub(crate) struct Organization {
    /// The number that rows of other tables refer to.
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) balance_cents: i64,
}

/// Maximum number of organizations: a list has all of them
/// (`docs/undocumented/both-services.md#bounds`).
const MAX_ORGANIZATIONS: i64 = 100_000;

fn count(tx: &Tx<'_>) -> Result<i64, ApiError> {
    Ok(tx.find("SELECT COUNT(*) FROM organization", [], |row| row.get(0))?.unwrap_or(0))
}

/// Inserts an organization. Without a name, its ID becomes its name.
pub(crate) fn insert(
    tx: &Tx<'_>,
    name: Option<&str>,
    balance_cents: i64,
) -> Result<Organization, ApiError> {
    let last = tx.find("SELECT MAX(seq) FROM organization", [], |row| row.get(0))?;
    let last: Option<i64> = last.flatten();
    // Numbers are never used again, so there are at most as many organizations.
    if last.is_some_and(|last| last >= MAX_ORGANIZATIONS) && count(tx)? >= MAX_ORGANIZATIONS {
        let message = format!(
            "the server can have at most {MAX_ORGANIZATIONS} organizations; reset the server to \
             delete all of them"
        );
        return Err(ApiError::new(Code::Conflict, message)
            .with(|details| details.limit = Some(MAX_ORGANIZATIONS as usize)));
    }
    let id = id::new(Prefix::Organization);
    let name = name.unwrap_or(&id).to_owned();
    tx.execute(
        "INSERT INTO organization (id, name, balance_cents, created_at) VALUES (?1, ?2, ?3, ?4)",
        (&id, &name, balance_cents, tx.now),
    )?;
    Ok(Organization { seq: tx.last_row(), id, name, balance_cents })
}

/// Gives an organization another number, so that it has none of the rows that refer to the present
/// one. Returns the new number.
pub(super) fn renumber(tx: &Tx<'_>, seq: i64) -> Result<i64, ApiError> {
    let sql = "DELETE FROM organization WHERE seq = ?1
               RETURNING id, name, balance_cents, created_at";
    let read = |row: &rusqlite::Row<'_>| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, i64>(3)?,
        ))
    };
    let row = tx.find(sql, [seq], read)?.ok_or_else(|| ApiError::not_found("organization"))?;
    // `AUTOINCREMENT` never uses a number again.
    let sql = "INSERT INTO organization (id, name, balance_cents, created_at)
               VALUES (?1, ?2, ?3, ?4)";
    tx.execute(sql, row)?;
    Ok(tx.last_row())
}

/// Deletes all organizations.
pub(super) fn delete_all(tx: &Tx<'_>) -> Result<(), ApiError> {
    tx.execute("DELETE FROM organization", [])?;
    Ok(())
}

/// Lists the organizations, oldest first.
pub(crate) fn list(reader: Reader<'_>) -> Result<Vec<Organization>, ApiError> {
    let sql = "SELECT seq, id, name, balance_cents FROM organization ORDER BY id";
    let mut statement = reader.statement(sql)?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
}

pub(crate) fn get(reader: Reader<'_>, seq: i64) -> Result<Organization, ApiError> {
    let sql = "SELECT seq, id, name, balance_cents FROM organization WHERE seq = ?1";
    reader.find(sql, [seq], read)?.ok_or_else(|| ApiError::not_found("organization"))
}

/// Finds an organization by its ID or its name. An ID takes precedence.
pub(crate) fn find_named(reader: Reader<'_>, id_or_name: &str) -> Result<i64, ApiError> {
    let mut statement = reader.statement(
        "SELECT seq, id = ?1 FROM organization WHERE id = ?1 OR name = ?1 ORDER BY 2 DESC LIMIT 2",
    )?;
    let rows = statement.query_map([id_or_name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    match found[..] {
        [] => Err(ApiError::not_found("organization")),
        [(seq, _)] | [(seq, true), _] => Ok(seq),
        _ => {
            let message = "several organizations have this name; use the ID instead";
            Err(ApiError::new(Code::Conflict, message))
        }
    }
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Organization> {
    Ok(Organization {
        seq: row.get(0)?,
        id: row.get(1)?,
        name: row.get(2)?,
        balance_cents: row.get(3)?,
    })
}
