//! `/_sandbox/due`: what is due next, and running it now.

use crate::api::framework::ControlCall;
use crate::control::due::{Due, DueKind};
use crate::control::endpoint::Page;
use crate::control::webhooks::Webhook;
use crate::delivery::webhook;
use crate::model::error::{ApiError, Code};
use crate::model::job::{Job, Queue};
use crate::store::keys::service_from;
use crate::store::{Reader, deliveries, emails, idempotency, jobs, messages};

/// Lists what is due, earliest first.
pub(crate) async fn list(call: ControlCall) -> Result<Page<Due>, ApiError> {
    let (limit, app) = (call.limit, call.data.app.clone());
    let offset = call.cursor.as_deref().unwrap_or("0").parse::<u32>();
    let offset = offset
        .map_err(|_| ApiError::field("cursor", "must be the `next` value of the previous page"))?;
    let page = call.data.read(move |reader, organization| {
        let (has_relay, from) = (app.relay.is_some(), i64::from(offset));
        let found = jobs::upcoming(reader, organization, has_relay, from, limit + 1)?;
        let has_more = found.len() > limit;
        let mut due = Vec::new();
        for (job, at, attempts) in found.into_iter().take(limit) {
            let (kind, description) = match describe(reader, organization, &job, attempts) {
                // It was deleted, so nothing happens.
                Err(error) if error.code() == Code::NotFound => continue,
                described => described?,
            };
            due.push(Due {
                at: at.into(),
                kind,
                subject: job.subject,
                description,
            });
        }
        if !has_more {
            due.extend(expiry(reader, organization, app.clock.now())?);
            due.sort_by_key(|due| due.at);
        }
        let next = has_more.then(|| (offset as usize + limit).to_string());
        Ok(Page { data: due, next })
    });
    page.await
}

/// The expiry of the oldest idempotency key. They are not jobs: a request with a key looks whether it
/// has expired.
fn expiry(reader: Reader<'_>, organization: i64, now: i64) -> Result<Option<Due>, ApiError> {
    let found = idempotency::next_expiry(reader, organization, now)?;
    Ok(found.map(|(at, key, others)| {
        let others = match others {
            0 => String::new(),
            1 => "; another one follows".to_owned(),
            others => format!("; {others} others follow"),
        };
        Due {
            at: at.into(),
            kind: DueKind::Expiry,
            description: format!("the idempotency key {key} expires{others}"),
            subject: key,
        }
    }))
}

fn describe(
    reader: Reader<'_>,
    organization: i64,
    job: &Job,
    attempts: i64,
) -> Result<(DueKind, String), ApiError> {
    let email = || {
        let email = emails::find(reader, &job.subject)?;
        let email = email.ok_or_else(|| ApiError::not_found("email"))?;
        let recipient = job.position.and_then(|at| email.recipients.get(at));
        let to = recipient.map_or(email.to.join(", "), |state| state.address.clone());
        Ok::<_, ApiError>(format!("{:?} to {to}", email.subject))
    };
    let attempt = attempts + 1;
    Ok(match (&job.queue, job.position) {
        (Queue::Mail, None) => (
            DueKind::Email,
            format!("{} is sent, as scheduled", email()?),
        ),
        (Queue::Mail, Some(_)) => (
            DueKind::Recipient,
            format!("{} is delivered, with a delay", email()?),
        ),
        (Queue::Relay, _) => (
            DueKind::Relay,
            format!("{} goes to the relay, attempt {attempt}", email()?),
        ),
        (Queue::Received, _) => {
            let (message, _) = messages::find(reader, organization, &job.subject)?;
            let (subject, recipient) = (message.subject, message.recipient);
            (
                DueKind::Message,
                format!("email.received for {subject:?} to {recipient} goes to the webhooks"),
            )
        }
        (Queue::Webhook(id), _) => {
            let delivery = deliveries::find(reader, &job.subject, organization)?;
            let recipient = delivery
                .recipient
                .map(|recipient| format!(" for {recipient}"));
            let (event, recipient) = (delivery.event, recipient.unwrap_or_default());
            let url = reader.row::<Webhook>(id, organization)?;
            let url = url.map_or("a deleted webhook".to_owned(), |webhook| webhook.url);
            let most = webhook::schedule(service_from(&delivery.service)).len() as i64 + 1;
            // After a replay, no retry follows.
            let number = match attempts {
                0 => "the first attempt".to_owned(),
                _ if attempt >= most => format!("attempt {}, the last", delivery.attempt_count + 1),
                _ => format!("attempt {attempt} of {most}"),
            };
            (
                DueKind::Delivery,
                format!("{event}{recipient} goes to {url}, {number}"),
            )
        }
    })
}

/// Runs what is due later about one subject now.
pub(crate) async fn run(call: ControlCall) -> Result<(), ApiError> {
    let id = call.id();
    let run =
        call.data.write(
            move |tx, _, organization| match jobs::hasten(tx, organization, &id)? {
                true => Ok(()),
                false => Err(ApiError::not_found("work that is due later")),
            },
        );
    run.await
}
