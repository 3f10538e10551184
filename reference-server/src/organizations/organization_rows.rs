//! The table `organization`.

use crate::keys::key_rows;
use crate::model::{Failure, Result, id};
use crate::store::{Reader, Tx, meta};

/// An organization in the database.
pub(crate) struct Organization {
    /// Rows of other tables refer to it.
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) balance_cents: i64,
}

/// Inserts an organization. Without a name, its ID becomes its name.
pub(crate) fn insert(tx: &Tx<'_>, name: Option<&str>, balance_cents: i64) -> Result<Organization> {
    let id = id::new(id::ORGANIZATION);
    let name = name.unwrap_or(&id).to_owned();
    tx.execute(
        "INSERT INTO organization (id, name, balance_cents, created_at) VALUES (?1, ?2, ?3, ?4)",
        (&id, &name, balance_cents, tx.now),
    )?;
    Ok(Organization {
        number: tx.last_row(),
        id,
        name,
        balance_cents,
    })
}

/// The tables with rows of organizations, except their keys, in an order in which they can be
/// emptied.
const OWNED: [&str; 11] = [
    "job",
    "delivery",
    "message",
    "email",
    "webhook",
    "fault",
    "audience",
    "dns_record",
    "domain",
    "template",
    "idempotency",
];

/// Deletes all data of an organization except its keys.
pub(crate) fn delete_data(tx: &mut Tx<'_>, organization: i64) -> Result<()> {
    for table in OWNED {
        tx.execute(
            &format!("DELETE FROM {table} WHERE organization = ?1"),
            [organization],
        )?;
    }
    Ok(())
}

/// Deletes the data of all organizations, the organizations and their keys, and the state
/// of the clock.
pub(crate) fn delete_all(tx: &mut Tx<'_>) -> Result<()> {
    for table in OWNED.into_iter().chain(["api_key", "organization"]) {
        tx.execute(&format!("DELETE FROM {table}"), [])?;
    }
    key_rows::load(tx)?;
    meta::delete_clock(tx)?;
    // Clients that wait for a message go on: the organizations have other numbers now.
    tx.message_stored();
    Ok(())
}

/// Lists the organizations, oldest first.
pub(crate) fn list(reader: Reader<'_>) -> Result<Vec<Organization>> {
    let sql = "SELECT number, id, name, balance_cents FROM organization ORDER BY id";
    reader.all(sql, [], read)
}

pub(crate) fn get(reader: Reader<'_>, number: i64) -> Result<Organization> {
    let sql = "SELECT number, id, name, balance_cents FROM organization WHERE number = ?1";
    reader
        .find(sql, [number], read)?
        .ok_or_else(|| Failure::not_found("organization"))
}

/// The end of an error message about what another organization has, if one has it: the row of a table
/// with this ID, or the domain with this name.
pub(crate) fn has_it(reader: Reader<'_>, table: &str, id: &str) -> Result<String> {
    let is_it = match table {
        "domain" => "id = ?1 OR name = ?1",
        _ => "id = ?1",
    };
    let sql = format!("SELECT organization FROM {table} WHERE {is_it} ORDER BY id LIMIT 1");
    let Some(number) = reader.find(&sql, [id], |row| row.get(0))? else {
        return Ok(String::new());
    };

    let Organization { id, name, .. } = get(reader, number)?;
    Ok(format!(
        "; the organization {name:?} ({id}) has it: name that as `organization`"
    ))
}

/// The one that seeds mean: others with its name came later.
pub(crate) fn oldest_named(reader: Reader<'_>, name: &str) -> Result<Option<i64>> {
    let sql = "SELECT number FROM organization WHERE name = ?1 ORDER BY number LIMIT 1";
    Ok(reader.find(sql, [name], |row| row.get(0))?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Organization> {
    Ok(Organization {
        number: row.get(0)?,
        id: row.get(1)?,
        name: row.get(2)?,
        balance_cents: row.get(3)?,
    })
}
