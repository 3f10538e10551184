//! One step of the engine: processes due work from the table `due`, many emails in one
//! transaction.

use serde_json::json;

use crate::delivery::{Delivery, events, relaying};
use crate::model::error::ApiError;
use crate::model::status::{self, Change, Outcome, Status};
use crate::model::time::Millis;
use crate::store::due::{self, Due};
use crate::store::in_progress::{Job, Kind};
use crate::store::{Tx, domains, emails, relay_queue};

/// Maximum number of emails in one step. A step does fewer while requests wait.
const BATCH: usize = 128;

/// Number of emails and further recipients after which a step leaves the rest to another
/// transaction, even if no request waits.
const MAX_UNITS: usize = 512;

/// How long a `delayed@…` recipient stays in `sending`, in milliseconds.
const DELAY: Millis = 60_000;

pub(super) struct StepResult {
    /// The earliest remaining time in the table `due`.
    pub(super) next: Millis,
    /// The time that the step has reached.
    pub(super) reached: Millis,
}

/// Processes due work up to `until`. Moves on to the next due time only if nothing that
/// the step caused is due before it.
pub(super) fn run(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    until: Millis,
) -> Result<StepResult, ApiError> {
    let due = due::list(tx, until.max(tx.now), tx.share(BATCH))?;
    let (mut done, mut jobs) = (0, delivery.store.in_progress.series());
    for (at, work) in due {
        if tx.is_enough(done) || done > MAX_UNITS {
            break;
        }
        if at > tx.now {
            if tx.has_work_for_workers() || tx.earliest_due().is_some_and(|caused| caused < at) {
                break;
            }
            tx.now = at;
        }
        let job = Job::new(Kind::Due, work.id(at));
        done += 1 + jobs.run(job, || {
            due::done(tx, at, &work)?;
            match &work {
                Due::Email(id) => send(tx, delivery, id),
                Due::Recipient { email, position } => {
                    deliver_delayed(tx, delivery, email, *position).map(|()| 0)
                }
            }
        })?;
    }
    let next = due::next(tx)?;
    Ok(StepResult { next: next.unwrap_or(Millis::MAX), reached: tx.now })
}

/// Starts sending a queued email. Returns the number of recipients beyond the first.
fn send(tx: &mut Tx<'_>, delivery: &Delivery, id: &str) -> Result<usize, ApiError> {
    let Some(mut email) = emails::find(tx.reader(), id)? else { return Ok(0) };
    if email.status != Status::Queued {
        return Ok(0);
    }
    email.due_at = None;
    // Check again: the domain of a scheduled email may have been deleted since
    // (`docs/undocumented/email-service.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || domains::is_verified(tx.reader(), email.organization, email.sender_domain())?;
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is no longer verified"});
            events::change(tx, delivery, &mut email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if delivery.relay.is_some() && relaying::is_for_relay(address) {
            relayed = true;
            continue;
        }
        match Outcome::of(address) {
            Outcome::Delivered => {
                events::change(tx, delivery, &mut email, position, Change::Delivered, None)?;
            }
            Outcome::Bounced => {
                let detail = json!({"reason": "550 5.1.1 no such mailbox", "type": "hard"});
                events::change(tx, delivery, &mut email, position, Change::Bounced, Some(&detail))?;
            }
            Outcome::Complained => {
                events::change(tx, delivery, &mut email, position, Change::Delivered, None)?;
                let detail = json!({"reason": "marked as spam by the recipient"});
                events::change(
                    tx,
                    delivery,
                    &mut email,
                    position,
                    Change::Complained,
                    Some(&detail),
                )?;
            }
            Outcome::Failed => {
                let detail = json!({"reason": "the mail engine could not send the message"});
                events::change(tx, delivery, &mut email, position, Change::Failed, Some(&detail))?;
            }
            Outcome::Delayed => {
                let work = Due::Recipient { email: id.to_owned(), position };
                due::add(tx, tx.now + DELAY, &work)?;
            }
        }
    }
    email.updated_at = tx.now;
    email.status = status::overall(&email.recipients);
    if relayed {
        relay_queue::put(tx, email.organization, &email.id)?;
    }
    emails::update(tx, &email)?;
    Ok(email.recipients.len().saturating_sub(1))
}

fn deliver_delayed(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    id: &str,
    position: usize,
) -> Result<(), ApiError> {
    let Some(mut email) = emails::find(tx.reader(), id)? else { return Ok(()) };
    // The control interface may have changed the recipient in the meantime.
    let status = email.recipients.get(position).map(|recipient| recipient.status);
    if status != Some(Status::Sending) {
        return Ok(());
    }
    events::apply(tx, delivery, &mut email, position, Change::Delivered, None)?;
    emails::update(tx, &email)
}
