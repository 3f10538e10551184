//! Rows as JSON: a table has columns for what its statements use, and in `data` the whole row.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Error, Row as Columns};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tx::{Reader, Tx};
use crate::model::time::rfc3339;
use crate::model::{Failure, Result};

/// A row of a table with the columns `id`, `organization` and `data`.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The table, which is also what errors call a row.
    const TABLE: &'static str;
}

impl Reader<'_> {
    /// The row of an organization with this ID, if there is one.
    pub(crate) fn row<R: Row>(self, id: &str, organization: i64) -> Result<Option<R>> {
        let sql = format!(
            "SELECT data FROM {} WHERE id = ?1 AND organization = ?2",
            R::TABLE
        );
        Ok(self.find(&sql, (id, organization), |row| json(row, 0))?)
    }

    /// The row of an organization with this ID, or 404.
    pub(crate) fn get<R: Row>(self, id: &str, organization: i64) -> Result<R> {
        self.row(id, organization)?
            .ok_or_else(|| Failure::not_found(R::TABLE))
    }

    /// Lists the rows of an organization after this ID, oldest first.
    pub(crate) fn page<R: Row>(self, organization: i64, after: &str, limit: i64) -> Result<Vec<R>> {
        let table = R::TABLE;
        let sql = format!(
            "SELECT data FROM {table} WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        );
        self.all(&sql, (organization, after, limit), |row| json(row, 0))
    }

    /// Lists the rows of an organization, oldest first.
    pub(crate) fn list<R: Row>(self, organization: i64) -> Result<Vec<R>> {
        self.page(organization, "", i64::MAX)
    }
}

impl Tx<'_> {
    /// Inserts a row. Returns `false` if there is one that it must differ from.
    pub(crate) fn insert<R: Row>(&self, organization: i64, row: &R) -> Result<bool> {
        let sql = format!(
            "INSERT INTO {} (id, organization, data) VALUES (?2 ->> 'id', ?1, ?2)
             ON CONFLICT DO NOTHING",
            R::TABLE
        );
        Ok(self.execute(&sql, (organization, Json(row)))? > 0)
    }

    /// Stores a changed row, with the time of the change if it has `updatedAt`.
    pub(crate) fn update<R: Row>(&self, organization: i64, row: &mut R) -> Result<()> {
        let sql = format!(
            "UPDATE {} SET data = json_replace(?2, '$.updatedAt', ?3)
             WHERE id = ?2 ->> 'id' AND organization = ?1 RETURNING data",
            R::TABLE
        );
        let values = (organization, Json(&row), rfc3339(self.now));
        if let Some(stored) = self.reader().find(&sql, values, |row| json(row, 0))? {
            *row = stored;
        }
        Ok(())
    }

    /// Deletes the row of an organization with this ID, and what belongs to it, or returns 404.
    pub(crate) fn delete<R: Row>(&self, id: &str, organization: i64) -> Result<()> {
        let sql = format!(
            "DELETE FROM {} WHERE id = ?1 AND organization = ?2",
            R::TABLE
        );
        self.change(R::TABLE, &sql, (id, organization))
    }
}

/// Maximum number of levels of a value of any form in a row: JSON is read up to 127 levels, and rows,
/// lists and the bodies of deliveries add some.
pub(crate) const MAX_LEVELS: usize = 100;

/// How many levels a value has.
pub(crate) fn levels(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(values) => values.iter().map(levels).max(),
        Value::Object(values) => values.values().map(levels).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

/// A value that a column has as JSON.
pub(crate) struct Json<T>(pub(crate) T);

/// Reads a column with JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Columns<'_>, column: usize) -> rusqlite::Result<T> {
    row.get(column).map(|Json(value)| value)
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let value = serde_json::from_str(value.as_str()?);
        value
            .map(Self)
            .map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(Into::into)
            .map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))
    }
}
