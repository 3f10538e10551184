//! `/_sandbox/templates/{id}`: the templates that the `templateId` of an email refers to
//! (`docs/undocumented/email-service.md#templates`).

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ControlResponse, json_response, no_content, organization, organization_param};
use crate::error::{ApiError, Problems};
use crate::openapi::schema;
use crate::store;
use crate::template::{self, Part};
use crate::time;
use crate::web::Input;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTemplate")]
pub(crate) struct Template {
    organization: Option<String>,
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Template")]
pub(crate) struct View {
    id: String,
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[schemars(with = "schema::Time")]
    updated_at: String,
}

/// Creates or replaces a template.
pub(super) async fn put(mut input: Input) -> ControlResponse {
    let new: Template = input.object().await?;
    let new = template::run(move || {
        let mut problems = Problems::default();
        let parts = [
            ("subject", Part::Subject, &new.subject),
            ("html", Part::Html, &new.html),
            ("text", Part::Text, &new.text),
        ];
        for (field, part, text) in parts {
            if let Some(Err(error)) = text.as_deref().map(|text| template::check(part, text)) {
                problems.add(field, error.to_string());
            }
        }
        problems.check().map(|()| new)
    });
    let new = new.await?;
    let name = new.organization.clone().or_else(|| organization_param(&input));
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let put = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, name.as_deref())?;
        tx.execute(
            "INSERT INTO template (organization, id, subject, html, text, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
             ON CONFLICT DO UPDATE SET subject = ?3, html = ?4, text = ?5, updated_at = ?6",
            (organization, &id, &new.subject, &new.html, &new.text, tx.now),
        )?;
        read(tx.connection(), organization, &id)
    });
    json_response(StatusCode::OK, &put.await?)
}

pub(super) async fn get(input: Input) -> ControlResponse {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let name = organization_param(&input);
    let found = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, name.as_deref())?;
        read(connection, organization, &id)
    });
    json_response(StatusCode::OK, &found.await?)
}

pub(super) async fn delete(input: Input) -> ControlResponse {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let name = organization_param(&input);
    let deleted = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, name.as_deref())?;
        let sql = "DELETE FROM template WHERE organization = ?1 AND id = ?2";
        match tx.execute(sql, (organization, &id))? {
            0 => Err(ApiError::not_found("template")),
            _ => Ok(()),
        }
    });
    deleted.await?;
    no_content()
}

fn read(connection: &rusqlite::Connection, organization: i64, id: &str) -> Result<View, ApiError> {
    let sql = "SELECT subject, html, text, created_at, updated_at FROM template
               WHERE organization = ?1 AND id = ?2";
    let found = store::find(connection, sql, (organization, id), |row| {
        Ok(View {
            id: id.to_owned(),
            subject: row.get(0)?,
            html: row.get(1)?,
            text: row.get(2)?,
            created_at: time::rfc3339(row.get(3)?),
            updated_at: time::rfc3339(row.get(4)?),
        })
    })?;
    found.ok_or_else(|| ApiError::not_found("template"))
}
