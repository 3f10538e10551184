//! The table `template`.

pub(crate) use crate::control::templates::Template;
use crate::control::templates::{NewTemplate, TemplateSummary};
use crate::model::error::ApiError;
use crate::store::{Reader, Tx};

/// Creates or replaces a template.
pub(crate) fn put(
    tx: &Tx<'_>,
    organization: i64,
    id: &str,
    new: &NewTemplate,
) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO template (organization, id, subject, html, text, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT DO UPDATE SET subject = ?3, html = ?4, text = ?5, updated_at = ?6",
        (organization, id, &new.subject, &new.html, &new.text, tx.now),
    )?;
    Ok(())
}

pub(crate) fn delete(tx: &Tx<'_>, organization: i64, id: &str) -> Result<(), ApiError> {
    let sql = "DELETE FROM template WHERE organization = ?1 AND id = ?2";
    tx.change("template", sql, (organization, id))
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

/// Lists the templates of an organization after this one, by ID.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    after: &str,
    limit: i64,
) -> Result<Vec<TemplateSummary>, ApiError> {
    let sql = "SELECT id, subject, html IS NOT NULL, text IS NOT NULL, created_at, updated_at
               FROM template WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    reader.all(sql, (organization, after, limit), |row| {
        Ok(TemplateSummary {
            id: row.get(0)?,
            subject: row.get(1)?,
            has_html: row.get(2)?,
            has_text: row.get(3)?,
            created_at: row.get(4)?,
            updated_at: row.get(5)?,
        })
    })
}
