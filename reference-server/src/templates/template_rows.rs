//! The table `template`.

use crate::mail::template;
use crate::model::{Problems, Result};
use crate::store::{Json, Reader, Row, Tx, json};
use crate::templates::template_wire::{NewTemplate, Template, TemplateSummary};

impl Row for Template {
    const TABLE: &'static str = "template";
}

/// Creates or replaces a template.
pub(crate) fn put(
    tx: &Tx<'_>,
    organization: i64,
    id: String,
    new: NewTemplate,
) -> Result<Template> {
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
) -> Result<Vec<TemplateSummary>> {
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
        let has_html = html.is_some();
        let has_text = text.is_some();
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

/// Returns an error if a part of the template is invalid.
pub(crate) fn check(new: &NewTemplate) -> Result<()> {
    let mut problems = Problems::default();
    for (part, text) in [
        ("subject", &new.subject),
        ("html", &new.html),
        ("text", &new.text),
    ] {
        if let Some(Err(error)) = text.as_deref().map(|text| template::check(part, text)) {
            problems.add(part, error.to_string());
        }
    }
    problems.check()
}
