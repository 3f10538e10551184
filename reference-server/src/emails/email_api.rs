//! The handlers of emails (`docs/email-service/README.md#emails`): sending, one email or a batch, getting
//! and cancelling; and of `/_sandbox/emails`: the emails in every status, what happened to each, and
//! events of one to simulate. One file, because a batch is accepted as a single email is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::header::HOST;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use svc_sdk::{Dialect, Point, Service};

use crate::control::Page;
use crate::deliveries::delivery_rows;
use crate::deliveries::delivery_wire::Delivery;
use crate::domains::domain_rows;
use crate::emails::email_rows::{self, Content, StoredEmail};
use crate::emails::email_rules::{self, Checked, Limits, MAX_ROWS, NewEmail};
use crate::emails::email_wire::{
    EmailChange, EmailEvent, EmailFilter, EmailStory, EmailSummary, MissingDelivery,
};
use crate::http::input::{check_syntax, object};
use crate::http::request_log::RequestId;
use crate::http::{Call, ControlCall, Input, Reply, call};
use crate::jobs::{Job, Queue, job_rows};
use crate::mail::preview::preview;
use crate::mail::template;
use crate::mail::tracking::Tracking;
use crate::messages::message_rows;
use crate::model::{
    Change, Code, ErrorObject, Event, Failure, RecipientState, Result, Status, Timestamp, id,
};
use crate::organizations::organization_rows;
use crate::runtime::heavy;
use crate::runtime::memory::RESPONSES;
use crate::store::{MAX_LEVELS, Reader, Tx, levels};
use crate::templates::template_wire::Template;
use crate::webhooks::webhook_rows;
use crate::webhooks::webhook_wire::Webhook;

pub(crate) async fn send(call: Call<NewEmail>) -> Result<Reply<EmailSummary>> {
    let new = call.body().await?;
    let size = call.bytes()?.len();
    let app = Arc::clone(&call.app);
    let check = move || new.check(&app.settings.dialect);
    let mut checked = heavy::run_on(size, check).await?;
    if let Some(stored) = call.repeated().await? {
        return Ok(stored);
    }

    apply_template(&call, &mut checked).await?;
    let mut origin = Origin::of(&call);
    let create = call.create(move |tx, app, _| {
        let tracking = origin.tracking(tx)?;
        let (mut email, content) = accept(tx, &mut origin, &tracking, checked)?;
        let accepted = email.shown.clone();
        match email.scheduled_at {
            None if tx.rows_written() < MAX_ROWS => email_rules::send(tx, app, &mut email)?,
            _ => queue(tx, &email)?,
        }
        email_rows::insert(tx, &email, content)?;
        Ok(accepted)
    });
    create.await
}

/// Renders the template of the email into each part that the request does not contain
/// (`docs/undocumented/services.md#templates`).
async fn apply_template(call: &Input, checked: &mut Checked) -> Result<()> {
    let Some(id) = checked.email.template_id.clone() else {
        return Ok(());
    };

    let found = call.read(move |reader, of| reader.row(&id, of));
    let Some(Template { html, text, .. }) = found.await? else {
        return Err(Failure::field("templateId", "no such template"));
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

    let permit = call.app.templates.permit().await;
    let (html, text) = template::run(permit, render).await?;
    let content = &mut checked.content;
    content.html = content.html.take().or(html);
    content.text = content.text.take().or(text);
    checked.email.preview = preview(content.html.as_deref(), content.text.as_deref());
    Ok(())
}

/// Where an email comes from.
pub(crate) struct Origin {
    organization: i64,
    /// The ID of the request, by which the request log finds it.
    request: Option<String>,
    /// The base URL of its pixel and links, if it is tracked.
    base_url: String,
    /// A domain of the organization that is known to be verified.
    verified: Option<String>,
}

impl Origin {
    pub(crate) fn of<B>(call: &Call<B>) -> Self {
        let request = call.parts.extensions.get::<RequestId>();
        Self {
            organization: call.organization,
            request: request.map(|RequestId(id)| id.clone()),
            base_url: call.app.base_url_for(call.header(HOST)),
            verified: None,
        }
    }

    /// The tracking that the organization's webhooks subscribe to, if any.
    pub(crate) fn tracking(&self, tx: &Tx<'_>) -> Result<Option<Tracking>> {
        let subscribed = |event| {
            let subscribers = webhook_rows::subscribers(tx.reader(), self.organization, event);
            subscribers.map(|subscribers| !subscribers.is_empty())
        };

        let opens = subscribed(Event::EmailOpened)?;
        let clicks = subscribed(Event::EmailClicked)?;
        let tracking = || Tracking {
            base_url: self.base_url.clone(),
            opens,
            clicks,
        };

        Ok((opens || clicks).then(tracking))
    }
}

/// An email as it is stored, and its content. `tracking` is that of HTML.
pub(crate) fn accept(
    tx: &Tx<'_>,
    origin: &mut Origin,
    tracking: &Option<Tracking>,
    checked: Checked,
) -> Result<(StoredEmail, Content)> {
    let Checked {
        mut email, content, ..
    } = checked;
    let organization = origin.organization;
    let is_verified = origin.verified.as_ref() == Some(&email.domain);
    if !is_verified
        && domain_rows::owners(tx.reader(), &email.domain, Some(organization))?.is_empty()
    {
        let domain = email.domain;
        let message = format!("the domain {domain} is not a verified domain of this organization");
        return Err(Failure::new(Code::DomainNotVerified, message)
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
pub(crate) fn queue(tx: &mut Tx<'_>, email: &StoredEmail) -> Result<()> {
    let due_at = email
        .scheduled_at
        .map_or(tx.now, |at| at.timestamp_millis().max(tx.now));
    job_rows::add(
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

pub(crate) async fn get(call: Call) -> Result<Reply<EmailInFull>> {
    let id = call.id();
    let read = call.id();
    let size = call.read(move |reader, _| email_rows::content_size(reader, &read));
    let memory = RESPONSES.reserve(size.await?).await;
    let found = call.read(move |reader, organization| {
        let email = find(reader, organization, &id)?;
        let content = email_rows::content(reader, &id, false)?;
        Ok(EmailInFull {
            email: email.shown,
            content,
            recipients: email.recipients,
        })
    });
    let reply = Reply::of(call.operation, call.dialect(), &found.await?)?;
    Ok(reply.with(memory))
}

fn find(reader: Reader<'_>, organization: i64, id: &str) -> Result<StoredEmail> {
    let email = email_rows::find(reader, id)?.filter(|email| email.organization == organization);
    email.ok_or_else(|| Failure::not_found("email"))
}

/// Cancels an email that is still waiting for its scheduled time
/// (`docs/undocumented/services.md#status-after-cancel`).
pub(crate) async fn cancel(call: Call) -> Result<Reply<EmailSummary>> {
    let id = call.id();
    let cancelled = call.create(move |tx, _, organization| {
        let mut email = find(tx.reader(), organization, &id)?;
        let is_waiting = email.scheduled_at.is_some_and(|at| at > tx.now.into());
        if email.status != Status::Queued || !is_waiting {
            let message = format!(
                "the email is not waiting for its scheduled time: its status is {}",
                email.status.as_str()
            );
            let error = Failure::new(Code::NotCancellable, message);
            return Err(error.with(|details| details.status = Some(email.status.as_str())));
        }
        job_rows::done(tx, &Job::new(Queue::Mail, id))?;
        email.status = Status::Cancelled;
        email.updated_at = tx.now.into();
        email.note(tx.now, Status::Cancelled, None, None);
        for recipient in &mut email.recipients {
            recipient.status = Status::Cancelled;
        }
        email_rows::update(tx, &email)?;
        Ok(email.shown)
    });
    cancelled.await
}

/// An array of emails, or an object with such an array.
#[derive(JsonSchema)]
#[schemars(rename = "CreateEmails", untagged)]
#[expect(
    dead_code,
    reason = "only for the OpenAPI description; every email is parsed on its own"
)]
pub(crate) enum NewBatch {
    Bare(#[schemars(length(min = 1, max = 100))] Vec<NewEmail>),
    Wrapped {
        #[schemars(length(min = 1, max = 100))]
        emails: Vec<NewEmail>,
    },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchResults")]
pub(crate) struct BatchResults {
    /// One result for each email, in the order of the request.
    results: Vec<BatchResult>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BatchResult")]
enum BatchResult {
    Accepted {
        index: usize,
        id: String,
        status: Status,
    },
    Rejected {
        index: usize,
        #[schemars(with = "ErrorObject<'_>")]
        error: Box<RawValue>,
    },
}

pub(crate) async fn send_batch(call: Call<NewBatch>) -> Result<Reply<BatchResults>> {
    let app = Arc::clone(&call.app);
    let bytes = call.json_bytes()?;
    let parse_batch = move || parse_batch(&bytes, &app.settings.dialect);
    let mut checked = heavy::run_on(call.bytes()?.len(), parse_batch).await?;
    if let Some(stored) = call.repeated().await? {
        return Ok(stored);
    }

    for email in &mut checked {
        let Ok(checked) = email else { continue };
        if let Err(error) = apply_template(&call, checked).await {
            *email = Err(error);
        }
    }

    let mut origin = Origin::of(&call);
    let is_whole = call.dialect().is(Point::BatchMode, "all-or-nothing");
    let create = call.create(move |tx, _, _| {
        let tracking = origin.tracking(tx)?;
        let mut results = Vec::with_capacity(checked.len());
        for (index, email) in checked.into_iter().enumerate() {
            let accepted = email.and_then(|checked| accept(tx, &mut origin, &tracking, checked));
            results.push(match accepted {
                Ok((email, content)) => {
                    email_rows::insert(tx, &email, content)?;
                    queue(tx, &email)?;
                    BatchResult::Accepted {
                        index,
                        id: email.shown.id,
                        status: email.shown.status,
                    }
                }
                Err(error) if is_whole || error.code().is_of_server() => {
                    return Err(error);
                }
                Err(error) => BatchResult::Rejected {
                    index,
                    error: to_raw_value(&error.object()).map_err(Failure::internal)?,
                },
            });
        }
        Ok(BatchResults { results })
    });
    create.await
}

/// Parses an array of emails, or an object with such an array in `emails`. A pinned `batch-body` is
/// the only form.
fn parse_batch(bytes: &[u8], dialect: &Dialect) -> Result<Vec<Result<Checked>>> {
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let pinned = dialect.pinned(Point::BatchBody);
    if pinned.is_some_and(|form| (form == "array") == is_object) {
        let message = match pinned {
            Some("array") | None => "must be a list of emails".to_owned(),
            Some(field) => format!("must be an object with the list of emails in {field}"),
        };
        return Err(Failure::field("", message));
    }

    let emails: Vec<&RawValue> = if is_object {
        let mut fields = object::<BTreeMap<String, &RawValue>>(bytes)?;
        let field = match dialect.choice(Point::BatchBody) {
            "array" => "emails",
            field => field,
        };
        let emails = fields.remove(field).map(RawValue::get);
        let emails = emails.and_then(|emails| serde_json::from_str(emails).ok());
        emails.ok_or_else(|| Failure::field(field, "must be a list of emails"))?
    } else if let Ok(emails) = serde_json::from_slice(bytes) {
        emails
    } else {
        check_syntax(bytes)?;
        return Err(Failure::field(
            "",
            "must be a list of emails or {\"emails\": […]}",
        ));
    };
    if emails.is_empty() {
        return Err(Failure::field("emails", "must contain at least one email"));
    }

    let most = Limits::of(dialect).batch;
    Failure::at_most("emails", emails.len(), most, "emails")?;
    emails
        .into_iter()
        .map(|email| parse_email(bytes, email, dialect))
        .collect()
}

/// Parses one email. An invalid field fails only this email (inner error). Invalid JSON,
/// such as too many levels or half a surrogate pair, fails the request (outer error).
fn parse_email(bytes: &[u8], email: &RawValue, dialect: &Dialect) -> Result<Result<Checked>> {
    match call::parse::<NewEmail>(email.get().as_bytes(), dialect) {
        Ok(email) => Ok(email.check(dialect)),
        Err(error) if error.code() == Code::InvalidJson => {
            check_syntax(bytes)?;
            Err(error)
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Lists one page of the matching emails, newest first.
pub(crate) async fn list(call: ControlCall<(), EmailFilter>) -> Result<Page<EmailSummary>> {
    let ControlCall {
        input,
        query,
        limit,
        cursor,
        ..
    } = call;
    let read = move |reader: Reader<'_>, of| {
        email_rows::list(reader, of, &query, limit, cursor.as_deref())
    };
    Ok(Page::of(input.read(read).await?, limit, |last| {
        last.id.clone()
    }))
}

/// Maximum number of deliveries in a story.
const MAX_DELIVERIES: i64 = 100;

/// Returns what happened to an email.
pub(crate) async fn story(call: ControlCall) -> Result<EmailStory> {
    let id = call.id();
    let app = Arc::clone(&call.app);
    let story = call.read(move |reader, organization| {
        let email = find_here(reader, organization, &id)?;
        let deliveries = delivery_rows::of_email(reader, &id, MAX_DELIVERIES)?;
        Ok(EmailStory {
            request: email
                .request
                .as_deref()
                .and_then(|id| app.requests.find(organization, id)),
            timeline: timeline(&email),
            messages: message_rows::of_email(reader, &id)?,
            missing: missing(reader, &email, &deliveries)?,
            deliveries,
            email: email.shown,
            recipients: email.recipients,
        })
    });
    story.await
}

fn find_here(reader: Reader<'_>, organization: i64, id: &str) -> Result<StoredEmail> {
    match find(reader, organization, id) {
        Err(error) if error.code() == Code::NotFound => {
            let elsewhere = organization_rows::has_it(reader, "email", id)?;
            Err(Failure::not_found(&format!("email{elsewhere}")))
        }
        found => found,
    }
}

/// Why the other webhooks got nothing. Of an email with too many deliveries to show, it is not known.
fn missing(
    reader: Reader<'_>,
    email: &StoredEmail,
    deliveries: &[Delivery],
) -> Result<Vec<MissingDelivery>> {
    if deliveries.len() >= MAX_DELIVERIES as usize {
        return Ok(Vec::new());
    }

    let mut webhooks = webhook_rows::list(reader, email.organization, Service::Email)?;
    webhooks.retain(|webhook| {
        deliveries
            .iter()
            .all(|delivery| delivery.webhook != webhook.id)
    });
    let missing = webhooks.into_iter().map(|webhook| {
        let reason = reason(&webhook, email);
        MissingDelivery {
            webhook: webhook.id,
            url: webhook.url,
            reason,
        }
    });
    Ok(missing.collect())
}

fn reason(webhook: &Webhook, email: &StoredEmail) -> String {
    let paused = if webhook.active { "" } else { "; it is paused" };
    let subscribed = |name: &str| webhook.events.iter().any(|event| event == name);
    let events = email
        .history
        .iter()
        .filter_map(|step| Some((step.event.as_deref()?, step.at)));
    let met: Vec<_> = events.filter(|(event, _)| subscribed(event)).collect();
    let names = met.iter().map(|(event, _)| *event).collect::<BTreeSet<_>>();
    let names = Vec::from_iter(names).join(", ");
    if met.is_empty() {
        let events = webhook.events.join(", ");
        format!("subscribes to {events}, which has not happened to this email{paused}")
    } else if met
        .iter()
        .all(|(_, at)| Timestamp::from(*at) < webhook.created_at)
    {
        format!("was created after {names} happened{paused}")
    } else if webhook.active {
        format!("was paused, or not subscribed, when {names} happened: it was changed since")
    } else {
        format!("is paused, so it was not sent {names}")
    }
}

fn timeline(email: &StoredEmail) -> Vec<EmailChange> {
    let accepted = EmailChange {
        at: email.created_at,
        status: Status::Queued,
        event: None,
        recipient: None,
    };
    let address = |position: usize| {
        email
            .recipients
            .get(position)
            .map(|state| state.address.clone())
    };

    let changes = email.history.iter().map(|step| EmailChange {
        at: step.at.into(),
        status: step.status,
        event: step.event.clone(),
        recipient: step.recipient.and_then(address),
    });
    [accepted].into_iter().chain(changes).collect()
}

/// Makes a scheduled email due now.
pub(crate) async fn send_now(call: ControlCall) -> Result<EmailSummary> {
    let id = call.id();
    let email = call.write(move |tx, _, organization| {
        let email = find_here(tx.reader(), organization, &id)?;
        if email.status != Status::Queued {
            let status = email.status.as_str();
            let message = format!("the email is not waiting to be sent: its status is {status}");
            return Err(Failure::new(Code::Conflict, message));
        }
        job_rows::add(
            tx,
            organization,
            &Job::new(Queue::Mail, id),
            tx.now,
            0,
            None,
        )?;
        Ok(email)
    });
    Ok(email.await?.shown)
}

/// Maximum size of `detail` as JSON, in bytes: it is stored for every affected recipient.
const MAX_DETAIL: usize = 16 * 1024;

/// Simulates an event of an email, such as a bounce, and delivers it to webhooks.
pub(crate) async fn simulate(call: ControlCall<EmailEvent>) -> Result<EmailSummary> {
    let id = call.input.id();
    let event = call.body;
    let names = "must be delivered, bounced, complained, failed, opened or clicked";
    let change = event
        .event
        .parse::<Change>()
        .map_err(|_| Failure::field("event", names))?;
    let kind = event.detail.as_ref().and_then(|detail| detail.get("type"));
    if change == Change::Bounced && kind.is_some_and(|kind| kind != "hard" && kind != "soft") {
        return Err(Failure::field("detail.type", "must be hard or soft"));
    }

    let size = event
        .detail
        .as_ref()
        .map_or(0, |detail| detail.to_string().len());
    Failure::at_most("detail", size, MAX_DETAIL, "bytes as JSON")?;
    Failure::at_most(
        "detail",
        event.detail.as_ref().map_or(0, levels),
        MAX_LEVELS,
        "levels",
    )?;
    let email = call.input.write(move |tx, app, organization| {
        let mut email = find_here(tx.reader(), organization, &id)?;
        let is_affected = |state: &RecipientState| match &event.recipient {
            Some(address) => state.address.eq_ignore_ascii_case(address),
            None => change.steps(state.status).is_some(),
        };
        let affected = email
            .recipients
            .iter()
            .enumerate()
            .filter(|(_, state)| is_affected(state));
        let affected: Vec<usize> = affected.map(|(position, _)| position).collect();
        if affected.is_empty() {
            if event.recipient.is_some() {
                return Err(Failure::field(
                    "recipient",
                    "is not a recipient of this email",
                ));
            }
            let message = format!(
                "the event {} is not possible for an email with the status {}",
                event.event,
                email.status.as_str()
            );
            return Err(Failure::new(Code::Conflict, message));
        }
        for position in affected {
            email_rules::apply(tx, app, &mut email, position, change, event.detail.as_ref())?;
        }
        email_rows::update(tx, &email)?;
        Ok(email)
    });
    Ok(email.await?.shown)
}
