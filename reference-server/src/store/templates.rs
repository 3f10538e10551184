//! The table `template`.

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::store::{Reader, Tx};

pub(crate) struct Template {
    pub(crate) id: String,
    pub(crate) subject: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) created_at: Millis,
    pub(crate) updated_at: Millis,
}

/// Creates or replaces a template.
pub(crate) fn put(
    tx: &Tx<'_>,
    organization: i64,
    id: &str,
    subject: Option<&str>,
    html: Option<&str>,
    text: Option<&str>,
) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO template (organization, id, subject, html, text, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT DO UPDATE SET subject = ?3, html = ?4, text = ?5, updated_at = ?6",
        (organization, id, subject, html, text, tx.now),
    )?;
    Ok(())
}

/// Returns `false` if there was none.
pub(crate) fn delete(tx: &Tx<'_>, organization: i64, id: &str) -> Result<bool, ApiError> {
    let sql = "DELETE FROM template WHERE organization = ?1 AND id = ?2";
    Ok(tx.execute(sql, (organization, id))? > 0)
}

pub(crate) fn find(
    reader: Reader<'_>,
    organization: i64,
    id: &str,
) -> Result<Option<Template>, ApiError> {
    let sql = "SELECT subject, html, text, created_at, updated_at FROM template
               WHERE organization = ?1 AND id = ?2";
    Ok(reader.find(sql, (organization, id), |row| {
        Ok(Template {
            id: id.to_owned(),
            subject: row.get(0)?,
            html: row.get(1)?,
            text: row.get(2)?,
            created_at: row.get(3)?,
            updated_at: row.get(4)?,
        })
    })?)
}

/// A template without its content.
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) subject: Option<String>,
    pub(crate) has_html: bool,
    pub(crate) has_text: bool,
    pub(crate) created_at: Millis,
    pub(crate) updated_at: Millis,
}

/// Lists the templates of an organization after this one, by ID.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    after: &str,
    limit: i64,
) -> Result<Vec<Head>, ApiError> {
    let mut statement = reader.statement(
        "SELECT id, subject, html IS NOT NULL, text IS NOT NULL, created_at, updated_at
         FROM template WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let rows = statement.query_map((organization, after, limit), |row| {
        Ok(Head {
            id: row.get(0)?,
            subject: row.get(1)?,
            has_html: row.get(2)?,
            has_text: row.get(3)?,
            created_at: row.get(4)?,
            updated_at: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
