//! Which organization a request is about.

use crate::model::{Code, Failure, Result};
use crate::store::Reader;

/// The name of the seeded organization.
pub(crate) const SANDBOX: &str = "Sandbox";

/// The number that no organization has: they count from 1.
pub(crate) const NO_ORGANIZATION: i64 = 0;

/// Finds an organization by its ID or its name. An ID takes precedence.
pub(crate) fn find_named(reader: Reader<'_>, id_or_name: &str) -> Result<i64> {
    let sql = "SELECT number, id = ?1 FROM organization WHERE id = ?1 OR name = ?1
               ORDER BY 2 DESC LIMIT 2";
    let found: Vec<(i64, bool)> =
        reader.all(sql, [id_or_name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match found[..] {
        [] => Err(Failure::not_found("organization")),
        [(number, _)] | [(number, true), _] => Ok(number),
        _ => {
            let message = "several organizations have this name; use the ID instead";
            Err(Failure::new(Code::Conflict, message))
        }
    }
}
