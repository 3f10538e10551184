//! The table `template`.

use super::rows::{Json, Row, json};
use crate::control::templates::{NewTemplate, Template, TemplateSummary};
use crate::model::error::ApiError;
use crate::store::{Reader, Tx};

impl Row for Template {
    const TABLE: &'static str = "template";
}

/// Creates or replaces a template.
pub(crate) fn put(
    tx: &Tx<'_>,
    organization: i64,
    id: String,
    new: NewTemplate,
) -> Result<Template, ApiError> {
    let now = tx.now.into();
    let known = tx.reader().row::<Template>(&id, organization)?;
    let created_at = known.map_or(now, |known| known.created_at);
    let NewTemplate {
        subject,
        html,
        text,
        ..
    } = new;
    let template = Template {
        id,
        subject,
        html,
        text,
        created_at,
        updated_at: now,
    };
    let sql = "INSERT OR REPLACE INTO template (id, organization, data) VALUES (?1, ?2, ?3)";
    tx.execute(sql, (&template.id, organization, Json(&template)))?;
    Ok(template)
}

/// Lists the templates of an organization after this one, by ID.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    after: &str,
    limit: i64,
) -> Result<Vec<TemplateSummary>, ApiError> {
    let sql = "SELECT data FROM template WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    reader.all(sql, (organization, after, limit), |row| {
        let Template {
            id,
            subject,
            html,
            text,
            created_at,
            updated_at,
        } = json(row, 0)?;
        let (has_html, has_text) = (html.is_some(), text.is_some());
        Ok(TemplateSummary {
            id,
            subject,
            has_html,
            has_text,
            created_at,
            updated_at,
        })
    })
}
