//! The table `organization`.

use rusqlite::Connection;

use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::store::{self, Tx};

/// The name of the seeded organization.
pub(crate) const SANDBOX: &str = "Sandbox";

pub(crate) struct Organization {
    /// The number that rows of other tables refer to.
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) balance_cents: i64,
}

/// Inserts an organization. Without a name, its ID becomes its name.
pub(crate) fn insert(
    tx: &Tx<'_>,
    name: Option<&str>,
    balance_cents: i64,
) -> Result<Organization, ApiError> {
    let id = id::new(Prefix::Organization);
    let name = name.unwrap_or(&id).to_owned();
    tx.execute(
        "INSERT INTO organization (id, name, balance_cents, created_at) VALUES (?1, ?2, ?3, ?4)",
        (&id, &name, balance_cents, tx.now),
    )?;
    Ok(Organization { seq: tx.connection().last_insert_rowid(), id, name, balance_cents })
}

/// Lists the organizations, oldest first.
pub(crate) fn list(connection: &Connection) -> Result<Vec<Organization>, ApiError> {
    let sql = "SELECT seq, id, name, balance_cents FROM organization ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
}

pub(crate) fn get(connection: &Connection, seq: i64) -> Result<Organization, ApiError> {
    let sql = "SELECT seq, id, name, balance_cents FROM organization WHERE seq = ?1";
    store::find(connection, sql, [seq], read)?.ok_or_else(|| ApiError::not_found("organization"))
}

/// Finds an organization by its ID or its name. An ID takes precedence.
pub(crate) fn find_named(connection: &Connection, id_or_name: &str) -> Result<i64, ApiError> {
    let mut statement = connection.prepare_cached(
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
