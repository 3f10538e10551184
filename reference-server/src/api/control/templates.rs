//! `/_sandbox/templates`: the templates that the `templateId` of an email refers to
//! (`docs/undocumented/email-service.md#templates`).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::query::Query;
use super::{Page, named_organization, organization, organization_param};
use crate::api::framework::{Input, Json, JsonBody, NoContent, OptionalBody};
use crate::mail::template::{self, Part};
use crate::model::error::{ApiError, Problems};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::templates;

/// The content of a template. Each part may contain variables, such as `{{ name }}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTemplate")]
pub struct NewTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl NewTemplate {
    /// A template without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the HTML part.
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// Sets the text part.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }
}

/// A template of emails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Template")]
#[non_exhaustive]
pub struct Template {
    /// The ID, which the `templateId` of an email names.
    pub id: String,
    /// The subject.
    pub subject: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The text part.
    pub text: Option<String>,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last stored.
    pub updated_at: Timestamp,
}

/// A template in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TemplateSummary {
    /// The ID, which the `templateId` of an email names.
    pub id: String,
    /// The subject.
    pub subject: Option<String>,
    /// Whether it has an HTML part.
    pub has_html: bool,
    /// Whether it has a text part.
    pub has_text: bool,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last stored.
    pub updated_at: Timestamp,
}

/// The variables of a template.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TemplateVariables")]
pub(crate) struct Variables {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization: Option<String>,
    /// Their values, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variables: Option<Map<String, Value>>,
}

/// A template with the values of its variables.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenderedTemplate {
    /// The subject. An email with the template has a subject of its own instead.
    pub subject: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The text part.
    pub text: Option<String>,
}

/// Lists one page of the templates, by ID.
pub(crate) async fn list(input: Input) -> Result<Json<Page<TemplateSummary>>, ApiError> {
    let mut query = Query::of(&input);
    let (limit, cursor) = (query.limit(), query.text("cursor").unwrap_or_default());
    query.check()?;
    let (app, name) = (Arc::clone(&input.app), organization_param(&input));
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        templates::list(reader, organization, &cursor, limit as i64 + 1)
    });
    let view = |head: templates::Head| TemplateSummary {
        id: head.id,
        subject: head.subject,
        has_html: head.has_html,
        has_text: head.has_text,
        created_at: head.created_at.into(),
        updated_at: head.updated_at.into(),
    };
    let found = found.await?.into_iter().map(view).collect();
    Json::of(&Page::of(found, limit, |last| last.id.clone()))
}

/// Creates or replaces a template.
pub(crate) async fn put(
    mut input: Input,
    body: JsonBody<NewTemplate>,
) -> Result<Json<Template>, ApiError> {
    let new = body.read(&mut input).await?;
    let name = named_organization(&input, new.organization.clone())?;
    let app = Arc::clone(&input.app);
    let resolve = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    let organization = input.app.store.read(resolve).await?;
    let permit = input.app.templates.permit().await;
    let new = template::run(permit, move || {
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
    let id = input.id().to_owned();
    let put = input.app.store.write(move |tx| {
        let [subject, html, text] = [&new.subject, &new.html, &new.text].map(Option::as_deref);
        templates::put(tx, organization, &id, subject, html, text)?;
        read(tx.reader(), organization, &id)
    });
    Json::of(&put.await?)
}

pub(crate) async fn get(input: Input) -> Result<Json<Template>, ApiError> {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let name = organization_param(&input);
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        read(reader, organization, &id)
    });
    Json::of(&found.await?)
}

/// Renders a template as an email with it would be, but sends nothing.
pub(crate) async fn render(
    mut input: Input,
    body: OptionalBody<Variables>,
) -> Result<Json<RenderedTemplate>, ApiError> {
    let Variables { organization: in_body, variables } = body.read(&mut input).await?;
    let name = named_organization(&input, in_body)?;
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        read(reader, organization, &id)
    });
    let found = found.await?;
    let permit = input.app.templates.permit().await;
    template::run(permit, move || {
        let variables = Value::Object(variables.unwrap_or_default());
        let render =
            |part, text: Option<String>| template::render_part(part, text.as_deref(), &variables);
        Json::of(&RenderedTemplate {
            subject: render(Part::Subject, found.subject)?,
            html: render(Part::Html, found.html)?,
            text: render(Part::Text, found.text)?,
        })
    })
    .await
}

pub(crate) async fn delete(input: Input) -> Result<NoContent, ApiError> {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let name = organization_param(&input);
    let deleted = input.app.store.write(move |tx| {
        let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
        match templates::delete(tx, organization, &id)? {
            false => Err(ApiError::not_found("template")),
            true => Ok(()),
        }
    });
    deleted.await?;
    Ok(NoContent)
}

fn read(reader: Reader<'_>, organization: i64, id: &str) -> Result<Template, ApiError> {
    let found = templates::find(reader, organization, id)?;
    let found = found.ok_or_else(|| ApiError::not_found("template"))?;
    Ok(Template {
        id: found.id,
        subject: found.subject,
        html: found.html,
        text: found.text,
        created_at: found.created_at.into(),
        updated_at: found.updated_at.into(),
    })
}
