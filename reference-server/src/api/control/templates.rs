//! `/_sandbox/templates`: the templates that the `templateId` of an email refers to
//! (`docs/undocumented/services.md#templates`).

use serde_json::Value;

use crate::api::framework::ControlCall;
use crate::control::endpoint::Page;
use crate::control::templates::{
    NewTemplate, RenderedTemplate, Template, TemplateSummary, Variables,
};
use crate::mail::template;
use crate::model::error::{ApiError, Problems};
use crate::store::templates;

/// Lists one page of the templates, by ID.
pub(crate) async fn list(call: ControlCall) -> Result<Page<TemplateSummary>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let found = call.data.read(move |reader, organization| {
        templates::list(reader, organization, &cursor, limit as i64 + 1)
    });
    Ok(Page::of(found.await?, limit, |last| last.id.clone()))
}

/// Creates or replaces a template.
pub(crate) async fn put(call: ControlCall<NewTemplate>) -> Result<Template, ApiError> {
    let (id, new) = (call.id(), call.body);
    let permit = call.data.app.templates.permit().await;
    let new = template::run(permit, move || check(&new).map(|()| new)).await?;
    let put = call
        .data
        .write(move |tx, _, organization| templates::put(tx, organization, id, new));
    put.await
}

/// Returns an error if a part of the template is invalid.
pub(super) fn check(new: &NewTemplate) -> Result<(), ApiError> {
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

/// Renders a template as an email with it would be, but sends nothing.
pub(crate) async fn render(call: ControlCall<Variables>) -> Result<RenderedTemplate, ApiError> {
    let id = call.id();
    let found = call.data.read(move |reader, of| reader.get(&id, of));
    let Template {
        subject,
        html,
        text,
        ..
    } = found.await?;
    let permit = call.data.app.templates.permit().await;
    template::run(permit, move || {
        let variables = Value::Object(call.body.variables.unwrap_or_default());
        let render =
            |part, text: Option<String>| template::render_part(part, text.as_deref(), &variables);
        Ok(RenderedTemplate {
            subject: render("subject", subject)?,
            html: render("html", html)?,
            text: render("text", text)?,
        })
    })
    .await
}
