//! `/_sandbox/templates`: the templates that the `templateId` of an email refers to
//! (`docs/undocumented/email-service.md#templates`).

use std::sync::Arc;

use serde_json::Value;

use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json, NoContent};
use crate::control::endpoint::Page;
use crate::control::query::PageQuery;
use crate::control::templates::{
    self as control, NewTemplate, RenderedTemplate, Template, TemplateSummary, Variables,
};
use crate::mail::template::{self, Part};
use crate::model::error::{ApiError, Problems};
use crate::store::Reader;
use crate::store::templates;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox templates");
    r.control(control::LIST, list);
    r.control(control::PUT_TEMPLATE, put).links("$request.path.id", "/_sandbox/templates/{");
    r.control(control::TEMPLATE, get);
    r.control(control::REMOVE, remove);
    r.control(control::RENDER, render);
}

/// Lists one page of the templates, by ID.
pub(crate) async fn list(
    call: ControlCall<(), PageQuery<TemplateSummary>>,
) -> Result<Json<Page<TemplateSummary>>, ApiError> {
    let (organization, limit) = (call.organization, call.query.limit.0);
    let cursor = call.query.cursor.as_ref().map_or_else(String::new, |cursor| cursor.0.clone());
    let found = call
        .app()
        .store
        .read(move |reader| templates::list(reader, organization, &cursor, limit as i64 + 1));
    let view = |head: templates::Head| TemplateSummary {
        id: head.id,
        subject: head.subject,
        has_html: head.has_html,
        has_text: head.has_text,
        created_at: head.created_at.into(),
        updated_at: head.updated_at.into(),
    };
    Json::of(&Page::of(found.await?, limit, |last| last.id.clone()).map(view))
}

/// Creates or replaces a template.
pub(crate) async fn put(call: ControlCall<NewTemplate>) -> Result<Json<Template>, ApiError> {
    let (organization, id, app) = (call.organization, call.id(), Arc::clone(call.app()));
    let new = call.body;
    let permit = app.templates.permit().await;
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
    let put = app.store.write(move |tx| {
        let [subject, html, text] = [&new.subject, &new.html, &new.text].map(Option::as_deref);
        templates::put(tx, organization, &id, subject, html, text)?;
        read(tx.reader(), organization, &id)
    });
    Json::of(&put.await?)
}

pub(crate) async fn get(call: ControlCall) -> Result<Json<Template>, ApiError> {
    let (organization, id) = (call.organization, call.id());
    Json::of(&call.app().store.read(move |reader| read(reader, organization, &id)).await?)
}

/// Renders a template as an email with it would be, but sends nothing.
pub(crate) async fn render(
    call: ControlCall<Variables>,
) -> Result<Json<RenderedTemplate>, ApiError> {
    let (organization, id) = (call.organization, call.id());
    let found = call.app().store.read(move |reader| read(reader, organization, &id)).await?;
    let permit = call.app().templates.permit().await;
    template::run(permit, move || {
        let variables = Value::Object(call.body.variables.unwrap_or_default());
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

pub(crate) async fn remove(call: ControlCall) -> Result<NoContent, ApiError> {
    let (organization, id) = (call.organization, call.id());
    let deleted = call.app().store.write(move |tx| templates::delete(tx, organization, &id));
    if deleted.await? { Ok(NoContent) } else { Err(ApiError::not_found("template")) }
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
