//! `/_sandbox/templates`: the templates that the `templateId` of an email refers to
//! (`docs/undocumented/services.md#templates`).

use serde_json::Value;

use crate::control::Page;
use crate::http::ControlCall;
use crate::mail::{html_check, template};
use crate::messages::message_wire::{CheckedPrograms, HtmlCheck};
use crate::model::Result;
use crate::runtime::heavy;
use crate::templates::template_rows::{self, check};
use crate::templates::template_wire::{
    NewTemplate, RenderedTemplate, Template, TemplateSummary, Variables,
};

/// Lists one page of the templates, by ID.
pub(crate) async fn list(call: ControlCall) -> Result<Page<TemplateSummary>> {
    let limit = call.limit;
    let cursor = call.cursor.unwrap_or_default();
    let found = call.input.read(move |reader, organization| {
        template_rows::list(reader, organization, &cursor, limit as i64 + 1)
    });
    Ok(Page::of(found.await?, limit, |last| last.id.clone()))
}

/// Creates or replaces a template.
pub(crate) async fn put(call: ControlCall<NewTemplate>) -> Result<Template> {
    let id = call.input.id();
    let new = call.body;
    let permit = call.input.app.templates.permit().await;
    let new = template::run(permit, move || check(&new).map(|()| new)).await?;
    let put = call
        .input
        .write(move |tx, _, organization| template_rows::put(tx, organization, id, new));
    put.await
}

/// Renders a template as an email with it would be, but sends nothing.
pub(crate) async fn render<Q>(call: ControlCall<Variables, Q>) -> Result<RenderedTemplate> {
    let id = call.id();
    let found = call.read(move |reader, of| reader.get(&id, of));
    let Template {
        subject,
        html,
        text,
        ..
    } = found.await?;
    let permit = call.app.templates.permit().await;
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

/// Returns what the rendered HTML uses that mail programs do not support.
pub(crate) async fn html_check(
    mut call: ControlCall<Variables, CheckedPrograms>,
) -> Result<HtmlCheck> {
    let programs = call.query.programs.take();
    let html = render(call).await?.html.unwrap_or_default();
    heavy::run(move || html_check::check(&html, std::iter::empty(), programs.as_deref())).await
}
