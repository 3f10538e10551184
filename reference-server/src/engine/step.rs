//! One step of the engine: processes due work from the table `due`, many emails in one
//! transaction.

use serde_json::{Value, json};

use super::lifecycle::{self, Change, Outcome, Status};
use super::{local_delivery, payload, post, relaying};
use crate::app::App;
use crate::email::domains;
use crate::email::stored::{self, Stored};
use crate::error::ApiError;
use crate::store::{DueKind, Tx};
use crate::time::Millis;
use crate::webhooks::Event;

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
pub(super) fn run(tx: &mut Tx<'_>, app: &App, until: Millis) -> Result<StepResult, ApiError> {
    let due: Vec<(Millis, i64, String)> = {
        let mut statement = tx.statement(
            "SELECT at, kind, ref FROM due WHERE at <= ?1 ORDER BY at, kind, ref LIMIT ?2",
        )?;
        let rows = statement.query_map((until.max(tx.now), tx.share(BATCH) as i64), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    let mut done = 0;
    for (at, kind, reference) in due {
        if tx.is_enough(done) || done > MAX_UNITS {
            break;
        }
        if at > tx.now {
            if tx.has_deliveries() || tx.earliest_due().is_some_and(|caused| caused < at) {
                break;
            }
            tx.now = at;
        }
        tx.execute(
            "DELETE FROM due WHERE at = ?1 AND kind = ?2 AND ref = ?3",
            (at, kind, &reference),
        )?;
        match DueKind::from_number(kind) {
            Some(DueKind::Email) => done += send(tx, app, &reference)?,
            Some(DueKind::Recipient) => deliver_delayed(tx, app, &reference)?,
            None => tracing::error!(kind, "unknown kind of scheduled work"),
        }
        done += 1;
    }
    let next = tx.find("SELECT at FROM due ORDER BY at LIMIT 1", [], |row| row.get(0))?;
    Ok(StepResult { next: next.unwrap_or(Millis::MAX), reached: tx.now })
}

/// Starts sending a queued email. Returns the number of recipients beyond the first.
fn send(tx: &mut Tx<'_>, app: &App, id: &str) -> Result<usize, ApiError> {
    let Some(mut email) = stored::find(tx.connection(), id)? else { return Ok(0) };
    if email.status != Status::Queued {
        return Ok(0);
    }
    email.due_at = None;
    // Check again: the domain of a scheduled email may have been deleted since
    // (`docs/undocumented/email-service.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || domains::is_verified(tx, email.organization, email.sender_domain())?;
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is no longer verified"});
            change_recipient(tx, app, &mut email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if app.relay.is_some() && relaying::is_for_relay(address) {
            relayed = true;
            continue;
        }
        match Outcome::of(address) {
            Outcome::Delivered => {
                change_recipient(tx, app, &mut email, position, Change::Delivered, None)?;
            }
            Outcome::Bounced => {
                let detail = json!({"type": "hard", "reason": "550 5.1.1 no such mailbox"});
                change_recipient(tx, app, &mut email, position, Change::Bounced, Some(&detail))?;
            }
            Outcome::Complained => {
                change_recipient(tx, app, &mut email, position, Change::Delivered, None)?;
                let detail = json!({"reason": "marked as spam by the recipient"});
                change_recipient(tx, app, &mut email, position, Change::Complained, Some(&detail))?;
            }
            Outcome::Failed => {
                let detail = json!({"reason": "the mail engine could not send the message"});
                change_recipient(tx, app, &mut email, position, Change::Failed, Some(&detail))?;
            }
            Outcome::Delayed => {
                tx.due(tx.now + DELAY, DueKind::Recipient, &format!("{id} {position}"))?;
            }
        }
    }
    email.updated_at = tx.now;
    email.status = lifecycle::overall(&email.recipients);
    if relayed {
        relaying::queue(tx, email.organization, &email.id)?;
    }
    stored::update(tx, &email)?;
    Ok(email.recipients.len().saturating_sub(1))
}

fn deliver_delayed(tx: &mut Tx<'_>, app: &App, reference: &str) -> Result<(), ApiError> {
    let Some((id, position)) = reference.split_once(' ') else { return Ok(()) };
    let Some(mut email) = stored::find(tx.connection(), id)? else { return Ok(()) };
    let position: usize = position.parse().unwrap_or(usize::MAX);
    // The control interface may have changed the recipient in the meantime.
    let status = email.recipients.get(position).map(|recipient| recipient.status);
    if status != Some(Status::Sending) {
        return Ok(());
    }
    apply_event(tx, app, &mut email, position, Change::Delivered, None)?;
    stored::update(tx, &email)
}

/// Applies a change to one recipient and emits its events. The caller stores the email.
///
/// # Errors
///
/// `Conflict` (409) if the change is not possible in the recipient's status.
pub(crate) fn apply_event(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut Stored,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<(), ApiError> {
    change_recipient(tx, app, email, position, change, detail)?;
    email.status = lifecycle::overall(&email.recipients);
    Ok(())
}

/// Like [`apply_event`], but leaves the status of the email to the caller, which may change
/// many recipients.
fn change_recipient(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut Stored,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(from) = email.recipients.get(position).map(|recipient| recipient.status) else {
        return Ok(());
    };
    let Some(steps) = change.steps(from) else {
        let message =
            format!("this event is not possible for a recipient with the status {}", from.as_str());
        return Err(ApiError::new(crate::error::Code::Conflict, message));
    };
    for (status, event) in steps {
        let last = event == change.event();
        let recipient = &mut email.recipients[position];
        recipient.status = status;
        if last {
            recipient.detail = detail.cloned().or(recipient.detail.take());
        }
        if status == Status::Delivered && event == Event::EmailDelivered {
            local_delivery::deliver(tx, app, email, &email.recipients[position].address)?;
        }
        let now = tx.now;
        let (organization, detail) = (email.organization, detail.filter(|_| last));
        post::emit(tx, &app.webhooks, organization, event, || {
            payload::outgoing(email, &email.recipients[position], event, detail, now)
        })?;
        email.last_event = Some(event.as_str().to_owned());
    }
    email.updated_at = tx.now;
    Ok(())
}
