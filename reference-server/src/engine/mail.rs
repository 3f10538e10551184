//! Sends emails: one step processes many of them in one transaction.

use std::sync::Arc;

use serde_json::json;

use crate::app::{App, Shared};
use crate::delivery::{events, relaying};
use crate::model::error::{ApiError, Code};
use crate::model::job::{Job, Queue};
use crate::model::status::{self, Change, Outcome, Status};
use crate::model::time::Millis;
use crate::store::{Reader, Tx, domains, emails, jobs};

/// Maximum number of emails in one step.
const BATCH: usize = 128;

/// Number of written rows after which a step leaves the rest to another transaction, so that no
/// request waits long for it.
const MAX_ROWS: u64 = 4_000;

/// How long a `delayed@…` recipient stays in `sending`, in milliseconds.
const DELAY: Millis = 60_000;

/// Processes emails that are due up to `until`. Moves on to the next due time only if nothing that
/// the step caused is due. Returns the time that it has reached.
pub(super) async fn step(app: Shared, until: Millis) -> Result<Millis, ApiError> {
    let write = |limit| {
        let context = Arc::clone(&app);
        app.store.write_relaxed(move |tx| run(tx, &context, until, limit))
    };
    match write(BATCH).await {
        Err(error) if error.code() == Code::Internal => {}
        step => return step,
    }
    // The server has a defect. By itself, the first email shows whether it is the cause.
    match write(1).await {
        Err(error) if error.code() == Code::Internal => {}
        step => return step,
    }
    let now = app.clock.now();
    let read = move |reader: Reader<'_>| jobs::due(reader, &Queue::Mail, until.max(now), 1);
    for (job, _) in app.store.read(read).await? {
        super::set_aside(&app, job).await?;
    }
    Ok(now)
}

fn run(tx: &mut Tx<'_>, app: &App, until: Millis, limit: usize) -> Result<Millis, ApiError> {
    let begun = tx.rows_written();
    for (job, at) in jobs::due(tx.reader(), &Queue::Mail, until.max(tx.now), limit)? {
        if tx.rows_written() - begun > MAX_ROWS {
            break;
        }
        if at > tx.now {
            if tx.has_new_jobs() {
                break;
            }
            tx.now = at;
        }
        jobs::done(tx, &job)?;
        match job.position {
            None => send(tx, app, &job.subject)?,
            Some(position) => deliver_delayed(tx, app, &job.subject, position)?,
        }
    }
    Ok(tx.now)
}

/// Starts sending a queued email.
fn send(tx: &mut Tx<'_>, app: &App, id: &str) -> Result<(), ApiError> {
    let Some(mut email) = emails::find(tx.reader(), id)? else { return Ok(()) };
    if email.status != Status::Queued {
        return Ok(());
    }
    // Check again: the domain of a scheduled email may have been deleted since
    // (`docs/undocumented/services.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || !domains::owners(tx.reader(), &email.domain, Some(email.organization))?.is_empty();
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is no longer verified"});
            events::apply(tx, app, &mut email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if app.relay.is_some() && relaying::is_for_relay(address) {
            relayed = true;
            continue;
        }
        let reason = |reason: &str| Some(json!({"reason": reason}));
        let (changes, reason): (&[Change], _) = match Outcome::of(address) {
            Outcome::Delivered => (&[Change::Delivered], None),
            Outcome::Bounced => {
                let reason = json!({"reason": "550 5.1.1 no such mailbox", "type": "hard"});
                (&[Change::Bounced], Some(reason))
            }
            Outcome::Complained => {
                let reason = reason("marked as spam by the recipient");
                (&[Change::Delivered, Change::Complained], reason)
            }
            Outcome::Failed => {
                (&[Change::Failed], reason("the mail engine could not send the message"))
            }
            Outcome::Delayed => {
                let position = Some(position);
                let job = Job { queue: Queue::Mail, subject: id.to_owned(), position };
                jobs::add(tx, email.organization, &job, tx.now + DELAY, 0, None)?;
                continue;
            }
        };
        for change in changes {
            let detail = reason.as_ref().filter(|_| *change != Change::Delivered);
            events::apply(tx, app, &mut email, position, *change, detail)?;
        }
    }
    email.updated_at = tx.now.into();
    email.status = status::overall(&email.recipients);
    if relayed {
        let job = Job::new(Queue::Relay, &email.id);
        jobs::add(tx, email.organization, &job, tx.now, 0, None)?;
    }
    emails::update(tx, &email)
}

fn deliver_delayed(tx: &mut Tx<'_>, app: &App, id: &str, position: usize) -> Result<(), ApiError> {
    let Some(mut email) = emails::find(tx.reader(), id)? else { return Ok(()) };
    // The control interface may have changed the recipient in the meantime.
    let status = email.recipients.get(position).map(|recipient| recipient.status);
    if status != Some(Status::Sending) {
        return Ok(());
    }
    events::apply(tx, app, &mut email, position, Change::Delivered, None)?;
    emails::update(tx, &email)
}
