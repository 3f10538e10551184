//! `/_sandbox/emails`: the emails in every status, what happened to each, and events of one to
//! simulate.

use std::collections::BTreeSet;
use std::sync::Arc;

use svc_sdk::Service;

use super::{deliveries, requests};
use crate::api::framework::ControlCall;
use crate::control::deliveries::Delivery;
use crate::control::emails::{
    EmailChange, EmailEvent, EmailFilter, EmailStory, EmailSummary, MissingDelivery,
};
use crate::control::endpoint::Page;
use crate::control::webhooks::Webhook;
use crate::delivery::events;
use crate::model::error::{ApiError, Code};
use crate::model::job::{Job, Queue};
use crate::model::status::{self, Change, Status};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::emails::{self, StoredEmail};
use crate::store::rows::{MAX_LEVELS, levels};
use crate::store::webhooks;
use crate::store::{jobs, messages, organizations};

/// Lists one page of the matching emails, newest first.
pub(crate) async fn list(
    call: ControlCall<(), EmailFilter>,
) -> Result<Page<EmailSummary>, ApiError> {
    let ControlCall {
        data,
        query,
        limit,
        cursor,
        ..
    } = call;
    let read =
        move |reader: Reader<'_>, of| emails::list(reader, of, &query, limit, cursor.as_deref());
    Ok(Page::of(data.read(read).await?, limit, |last| {
        last.id.clone()
    }))
}

/// Maximum number of deliveries in a story.
const MAX_DELIVERIES: i64 = 100;

/// Returns what happened to an email.
pub(crate) async fn story(call: ControlCall) -> Result<EmailStory, ApiError> {
    let (id, app) = (call.id(), Arc::clone(&call.data.app));
    let story = call.data.read(move |reader, organization| {
        let email = find(reader, organization, &id)?;
        let deliveries = deliveries::of_email(reader, &id, MAX_DELIVERIES)?;
        Ok(EmailStory {
            request: requests::of_email(&app.requests, &email),
            timeline: timeline(&email),
            messages: messages::of_email(reader, &id)?,
            missing: missing(reader, &email, &deliveries)?,
            deliveries,
            email: email.shown,
            recipients: email.recipients,
        })
    });
    story.await
}

fn find(reader: Reader<'_>, organization: i64, id: &str) -> Result<StoredEmail, ApiError> {
    match emails::find(reader, id)? {
        Some(email) if email.organization == organization => Ok(email),
        Some(email) => {
            let elsewhere = organizations::has_it(reader, email.organization)?;
            Err(ApiError::not_found(&format!("email{elsewhere}")))
        }
        None => Err(ApiError::not_found("email")),
    }
}

/// Why the other webhooks got nothing. Of an email with too many deliveries to show, it is not known.
fn missing(
    reader: Reader<'_>,
    email: &StoredEmail,
    deliveries: &[Delivery],
) -> Result<Vec<MissingDelivery>, ApiError> {
    if deliveries.len() >= MAX_DELIVERIES as usize {
        return Ok(Vec::new());
    }
    let mut webhooks = webhooks::list(reader, email.organization, Service::Email)?;
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
pub(crate) async fn send_now(call: ControlCall) -> Result<EmailSummary, ApiError> {
    let id = call.id();
    let email = call.data.write(move |tx, _, organization| {
        let email = find(tx.reader(), organization, &id)?;
        if email.status != Status::Queued {
            let status = email.status.as_str();
            let message = format!("the email is not waiting to be sent: its status is {status}");
            return Err(ApiError::new(Code::Conflict, message));
        }
        jobs::add(
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
pub(crate) async fn simulate(call: ControlCall<EmailEvent>) -> Result<EmailSummary, ApiError> {
    let (id, event) = (call.id(), call.body);
    let names = "must be delivered, bounced, complained, failed, opened or clicked";
    let change = event
        .event
        .parse::<Change>()
        .map_err(|_| ApiError::field("event", names))?;
    let kind = event.detail.as_ref().and_then(|detail| detail.get("type"));
    if change == Change::Bounced && kind.is_some_and(|kind| kind != "hard" && kind != "soft") {
        return Err(ApiError::field("detail.type", "must be hard or soft"));
    }
    let size = event
        .detail
        .as_ref()
        .map_or(0, |detail| detail.to_string().len());
    ApiError::at_most("detail", size, MAX_DETAIL, "bytes as JSON")?;
    ApiError::at_most(
        "detail",
        event.detail.as_ref().map_or(0, levels),
        MAX_LEVELS,
        "levels",
    )?;
    let email = call.data.write(move |tx, app, organization| {
        let mut email = find(tx.reader(), organization, &id)?;
        let is_affected = |state: &status::RecipientState| match &event.recipient {
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
                return Err(ApiError::field(
                    "recipient",
                    "is not a recipient of this email",
                ));
            }
            let message = format!(
                "the event {} is not possible for an email with the status {}",
                event.event,
                email.status.as_str()
            );
            return Err(ApiError::new(Code::Conflict, message));
        }
        for position in affected {
            events::apply(tx, app, &mut email, position, change, event.detail.as_ref())?;
        }
        emails::update(tx, &email)?;
        Ok(email)
    });
    Ok(email.await?.shown)
}
