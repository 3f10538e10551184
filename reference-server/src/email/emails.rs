//! Emails (`docs/email-service/emails.md`): sent, looked at, cancelled. A batch is in
//! `batch`.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::domains;
use super::request::{Checked, NewEmail};
use super::stored::{self, Attachment, Content, Stored, View};
use crate::app::{App, Shared};
use crate::engine::{RecipientState, Status};
use crate::error::{ApiError, Code};
use crate::id::{self, Prefix};
use crate::store::{self, DueKind, Tx};
use crate::template::{self, Part};
use crate::tracking::Tracking;
use crate::web::input::object;
use crate::web::{Answer, Call};

/// Bodies beyond this are read and decoded off the async threads.
const LARGE: usize = 128 << 10;

pub(crate) async fn send(mut call: Call) -> Result<Answer, ApiError> {
    let body = call.input.json_bytes().await?;
    let bytes = body.clone();
    let read = move || object::<NewEmail>(&bytes)?.check();
    let mut checked = if body.len() > LARGE { off_thread(read).await? } else { read()? };
    fill_in(call.app(), call.organization(), &mut checked).await?;
    let (switches, organization) = (call.switches().clone(), call.organization());
    let app = Arc::clone(call.app());
    call.create(&body, move |tx| {
        let email = accept(tx, &app, organization, checked)?;
        tx.after_commit(move || app.metrics.emails(1));
        Answer::created(&switches, StatusCode::ACCEPTED, &email.view())
    })
    .await
}

pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}

/// Puts in what comes from the email's template: each part that the request
/// does not give itself (`docs/undocumented/email-service.md#templates`).
pub(super) async fn fill_in(
    app: &Shared,
    organization: i64,
    checked: &mut Checked,
) -> Result<(), ApiError> {
    let Some(id) = checked.meta.template_id.clone() else { return Ok(()) };
    let found = app.store.read(move |connection| {
        let sql = "SELECT html, text FROM template WHERE organization = ?1 AND id = ?2";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(store::find(connection, sql, (organization, &id), read)?)
    });
    let parts: Option<(Option<String>, Option<String>)> = found.await?;
    let Some((html, text)) = parts else {
        return Err(ApiError::field("templateId", "there is no such template"));
    };
    let render = |part, template: Option<String>| {
        let rendered =
            template.map(|template| template::render(part, &template, &checked.variables));
        rendered.transpose().map_err(|error| ApiError::field("variables", error.to_string()))
    };
    let content = &mut checked.content;
    if content.html.is_none() {
        content.html = render(Part::Html, html)?;
    }
    if content.text.is_none() {
        content.text = render(Part::Text, text)?;
    }
    Ok(())
}

/// Takes an email in: durable when the transaction is, and due at its time.
pub(super) fn accept(
    tx: &mut Tx<'_>,
    app: &App,
    organization: i64,
    mut checked: Checked,
) -> Result<Stored, ApiError> {
    if !domains::is_verified(tx, organization, &checked.meta.domain)? {
        let domain = &checked.meta.domain;
        let message = format!("the domain {domain} is not a verified domain of this organization");
        return Err(ApiError::new(Code::DomainNotVerified, message)
            .with(|details| details.domain = Some(domain.clone())));
    }
    if checked.content.html.is_some() {
        checked.meta.tracking = Tracking::wanted(app, organization);
    }
    let due_at = checked.scheduled_at.unwrap_or(tx.now).max(tx.now);
    let email = Stored {
        id: id::new(Prefix::Email),
        organization,
        status: Status::Queued,
        last_event: None,
        scheduled_at: checked.scheduled_at,
        due_at: Some(due_at),
        created_at: tx.now,
        updated_at: tx.now,
        meta: checked.meta,
        recipients: checked.recipients,
    };
    stored::insert(tx, &email, &checked.content)?;
    tx.due(due_at, DueKind::Email, &email.id)?;
    Ok(email)
}

/// An email with its content and the course of each recipient.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EmailInFull")]
pub(crate) struct Full<'a> {
    #[serde(flatten)]
    email: View<'a>,
    html: Option<&'a str>,
    text: Option<&'a str>,
    headers: &'a Map<String, Value>,
    attachments: &'a [Attachment],
    recipients: &'a [RecipientState],
}

pub(crate) async fn get(call: Call) -> Result<Answer, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let found = call.app().store.read(move |connection| {
        let email =
            stored::find(connection, &id)?.filter(|email| email.organization == organization);
        let email = email.ok_or_else(|| ApiError::not_found("email"))?;
        let content = stored::content(connection, &id, false)?;
        Ok((email, content))
    });
    let (email, content): (Stored, Content) = found.await?;
    let full = Full {
        email: email.view(),
        html: content.html.as_deref(),
        text: content.text.as_deref(),
        headers: &content.headers,
        attachments: &content.attachments,
        recipients: &email.recipients,
    };
    Answer::resource(call.switches(), &full)
}

/// Only an email that still waits for its date can be cancelled (`docs/undocumented/email-service.md#status-after-cancel`).
pub(crate) async fn cancel(call: Call) -> Result<Answer, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let switches = call.switches().clone();
    call.app()
        .store
        .write(move |tx| {
            let email = stored::find(tx.connection(), &id)?;
            let mut email = email
                .filter(|email| email.organization == organization)
                .ok_or_else(|| ApiError::not_found("email"))?;
            let due_at = match email.due_at {
                Some(due_at) if email.status == Status::Queued && due_at > tx.now => due_at,
                _ => {
                    let message = format!(
                        "the email does not wait for its date: it is {}",
                        email.status.as_str()
                    );
                    let error = ApiError::new(Code::NotCancellable, message);
                    return Err(error.with(|details| details.status = Some(email.status.as_str())));
                }
            };
            tx.cancel_due(due_at, DueKind::Email, &id)?;
            email.status = Status::Cancelled;
            email.due_at = None;
            email.updated_at = tx.now;
            for recipient in &mut email.recipients {
                recipient.status = Status::Cancelled;
            }
            stored::update(tx, &email)?;
            Answer::resource(&switches, &email.view())
        })
        .await
}
