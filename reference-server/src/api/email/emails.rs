//! Sending, getting and cancelling emails (`docs/email-service/README.md#emails`). Batches are in
//! `batch`.

use std::sync::Arc;

use http::header::HOST;
use schemars::JsonSchema;
use serde::Serialize;

use super::request::{Checked, NewEmail};
use crate::api::framework::call::Data;
use crate::api::framework::{Call, Reply, memory};
use crate::api::tracking;
use crate::control::emails::EmailSummary;
use crate::control::templates::Template;
use crate::delivery::sending::{self, MAX_ROWS};
use crate::mail::preview::preview;
use crate::mail::template;
use crate::model::error::{ApiError, Code};
use crate::model::event::Event;
use crate::model::id;
use crate::model::job::{Job, Queue};
use crate::model::status::{RecipientState, Status};
use crate::model::tracking::Tracking;
use crate::runtime::heavy;
use crate::store::emails::{self, Content, StoredEmail};
use crate::store::jobs;
use crate::store::request_log::RequestId;
use crate::store::{Reader, Tx, domains, webhooks};

pub(crate) async fn send(call: Call<NewEmail>) -> Result<Reply<EmailSummary>, ApiError> {
    let (new, size) = (call.read().await?, call.input.bytes()?.len());
    let app = Arc::clone(&call.data.app);
    let check = move || new.check(&app.settings.dialect);
    let mut checked = heavy::run_on(size, check).await?;
    if let Some(stored) = call.repeated().await? {
        return Ok(stored);
    }
    apply_template(&call.data, &mut checked).await?;
    let mut origin = Origin::of(&call);
    let create = call.create(move |tx, app, _| {
        let tracking = origin.tracking(tx)?;
        let (mut email, content) = accept(tx, &mut origin, &tracking, checked)?;
        let accepted = email.shown.clone();
        match email.scheduled_at {
            None if tx.rows_written() < MAX_ROWS => sending::send(tx, app, &mut email)?,
            _ => queue(tx, &email)?,
        }
        emails::insert(tx, &email, content)?;
        Ok(accepted)
    });
    create.await
}

/// Renders the template of the email into each part that the request does not contain
/// (`docs/undocumented/services.md#templates`).
pub(super) async fn apply_template(data: &Data, checked: &mut Checked) -> Result<(), ApiError> {
    let Some(id) = checked.email.template_id.clone() else {
        return Ok(());
    };
    let found = data.read(move |reader, of| reader.row(&id, of));
    let Some(Template { html, text, .. }) = found.await? else {
        return Err(ApiError::field("templateId", "no such template"));
    };
    let variables = std::mem::take(&mut checked.variables);
    let html = html.filter(|_| checked.content.html.is_none());
    let text = text.filter(|_| checked.content.text.is_none());
    let render = move || {
        let html = template::render_part("html", html.as_deref(), &variables)?;
        Ok((
            html,
            template::render_part("text", text.as_deref(), &variables)?,
        ))
    };
    let permit = data.app.templates.permit().await;
    let (html, text) = template::run(permit, render).await?;
    let content = &mut checked.content;
    content.html = content.html.take().or(html);
    content.text = content.text.take().or(text);
    checked.email.preview = preview(content.html.as_deref(), content.text.as_deref());
    Ok(())
}

/// Where an email comes from.
pub(super) struct Origin {
    organization: i64,
    /// The ID of the request, by which the request log finds it.
    request: Option<String>,
    /// That of its pixel and links, if it is tracked.
    base_url: String,
    /// A domain of the organization that is known to be verified.
    verified: Option<String>,
}

impl Origin {
    pub(super) fn of<B>(call: &Call<B>) -> Self {
        let request = call.input.parts.extensions.get::<RequestId>();
        Self {
            organization: call.data.organization,
            request: request.map(|RequestId(id)| id.clone()),
            base_url: tracking::base_url(&call.data.app, call.input.header(HOST)),
            verified: None,
        }
    }

    /// The tracking that the organization's webhooks subscribe to, if any.
    pub(super) fn tracking(&self, tx: &Tx<'_>) -> Result<Option<Tracking>, ApiError> {
        let subscribed = |event| {
            let subscribers = webhooks::subscribers(tx.reader(), self.organization, event);
            subscribers.map(|subscribers| !subscribers.is_empty())
        };
        let (opens, clicks) = (
            subscribed(Event::EmailOpened)?,
            subscribed(Event::EmailClicked)?,
        );
        let tracking = || Tracking {
            base_url: self.base_url.clone(),
            opens,
            clicks,
        };
        Ok((opens || clicks).then(tracking))
    }
}

/// An email as it is stored, and its content. `tracking` is that of HTML.
pub(super) fn accept(
    tx: &Tx<'_>,
    origin: &mut Origin,
    tracking: &Option<Tracking>,
    checked: Checked,
) -> Result<(StoredEmail, Content), ApiError> {
    let Checked {
        mut email, content, ..
    } = checked;
    let organization = origin.organization;
    let is_verified = origin.verified.as_ref() == Some(&email.domain);
    if !is_verified && domains::owners(tx.reader(), &email.domain, Some(organization))?.is_empty() {
        let domain = email.domain;
        let message = format!("the domain {domain} is not a verified domain of this organization");
        return Err(ApiError::new(Code::DomainNotVerified, message)
            .with(|details| details.domain = Some(domain)));
    }
    origin.verified = Some(email.domain.clone());
    if content.html.is_some() {
        email.tracking.clone_from(tracking);
    }
    email.organization = organization;
    email.request.clone_from(&origin.request);
    // Here, so that IDs are in the order of the commits, which lists rely on.
    email.id = id::new(id::EMAIL);
    email.created_at = tx.now.into();
    email.updated_at = tx.now.into();
    Ok((email, content))
}

/// Leaves an email to the engine, which sends it now or at its scheduled time.
pub(super) fn queue(tx: &mut Tx<'_>, email: &StoredEmail) -> Result<(), ApiError> {
    let due_at = email
        .scheduled_at
        .map_or(tx.now, |at| at.timestamp_millis().max(tx.now));
    jobs::add(
        tx,
        email.organization,
        &Job::new(Queue::Mail, &email.id),
        due_at,
        0,
        None,
    )
}

/// An email with its content and the status of each recipient.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EmailInFull")]
pub(crate) struct EmailInFull {
    #[serde(flatten)]
    email: EmailSummary,
    #[serde(flatten)]
    content: Content,
    recipients: Vec<RecipientState>,
}

pub(crate) async fn get(call: Call) -> Result<Reply<EmailInFull>, ApiError> {
    let (id, read) = (call.id(), call.id());
    let size = call
        .data
        .read(move |reader, _| emails::content_size(reader, &read));
    memory::reserve_response(size.await?).await;
    let found = call.data.read(move |reader, organization| {
        let email = find(reader, organization, &id)?;
        let content = emails::content(reader, &id, false)?;
        Ok(EmailInFull {
            email: email.shown,
            content,
            recipients: email.recipients,
        })
    });
    call.reply(found.await?)
}

fn find(reader: Reader<'_>, organization: i64, id: &str) -> Result<StoredEmail, ApiError> {
    let email = emails::find(reader, id)?.filter(|email| email.organization == organization);
    email.ok_or_else(|| ApiError::not_found("email"))
}

/// Cancels an email that is still waiting for its scheduled time
/// (`docs/undocumented/services.md#status-after-cancel`).
pub(crate) async fn cancel(call: Call) -> Result<Reply<EmailSummary>, ApiError> {
    let id = call.id();
    let cancelled = call.create(move |tx, _, organization| {
        let mut email = find(tx.reader(), organization, &id)?;
        let is_waiting = email.scheduled_at.is_some_and(|at| at > tx.now.into());
        if email.status != Status::Queued || !is_waiting {
            let message = format!(
                "the email is not waiting for its scheduled time: its status is {}",
                email.status.as_str()
            );
            let error = ApiError::new(Code::NotCancellable, message);
            return Err(error.with(|details| details.status = Some(email.status.as_str())));
        }
        jobs::done(tx, &Job::new(Queue::Mail, id))?;
        email.status = Status::Cancelled;
        email.updated_at = tx.now.into();
        email.note(tx.now, Status::Cancelled, None, None);
        for recipient in &mut email.recipients {
            recipient.status = Status::Cancelled;
        }
        emails::update(tx, &email)?;
        Ok(email.shown)
    });
    cancelled.await
}
