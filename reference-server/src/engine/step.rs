//! One step: takes what is due from the table `due` and does it, many emails in
//! one transaction.

use serde_json::{Value, json};

use super::course::{self, Change, Outcome, Status};
use super::{local_delivery, payload, post, relaying};
use crate::app::App;
use crate::email::domains;
use crate::email::stored::{self, Stored};
use crate::error::ApiError;
use crate::store::{DueKind, Tx};
use crate::time::Millis;
use crate::webhooks::Event;

/// Emails in one step: so many that a transaction is worth it. While requests
/// wait, a step does fewer.
const BATCH: usize = 128;

/// How long a delayed recipient stays in `sending`.
const DELAY: Millis = 60_000;

pub(super) struct Stepped {
    /// When the next thing in the table is due.
    pub(super) next: Millis,
    /// The time that the step has come to.
    pub(super) reached: Millis,
}

/// Does what is due, going through due times up to `until` as long as nothing
/// that the step causes belongs in between.
pub(super) fn run(tx: &mut Tx<'_>, app: &App, until: Millis) -> Result<Stepped, ApiError> {
    let due: Vec<(Millis, i64, String)> = {
        let mut statement = tx.statement(
            "SELECT at, kind, ref FROM due WHERE at <= ?1 ORDER BY at, kind, ref LIMIT ?2",
        )?;
        let rows = statement.query_map((until.max(tx.now), tx.share(BATCH) as i64), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for (done, (at, kind, of)) in due.into_iter().enumerate() {
        if tx.is_enough(done) {
            break;
        }
        if at > tx.now {
            if tx.has_deliveries() || tx.earliest_due().is_some_and(|caused| caused < at) {
                break;
            }
            tx.now = at;
        }
        tx.execute("DELETE FROM due WHERE at = ?1 AND kind = ?2 AND ref = ?3", (at, kind, &of))?;
        match DueKind::from_number(kind) {
            Some(DueKind::Email) => send(tx, app, &of)?,
            Some(DueKind::Recipient) => deliver_delayed(tx, app, &of)?,
            None => tracing::error!(kind, "something unknown was due"),
        }
    }
    let next = tx.find("SELECT at FROM due ORDER BY at LIMIT 1", [], |row| row.get(0))?;
    Ok(Stepped { next: next.unwrap_or(Millis::MAX), reached: tx.now })
}

/// The mail engine takes up an email.
fn send(tx: &mut Tx<'_>, app: &App, id: &str) -> Result<(), ApiError> {
    let Some(mut email) = stored::find(tx.connection(), id)? else { return Ok(()) };
    if email.status != Status::Queued {
        return Ok(());
    }
    email.due_at = None;
    // Checked again, because a scheduled email's domain may be gone by now (`docs/undocumented/email-service.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || domains::is_verified(tx, email.organization, email.sender_domain())?;
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is not verified any more"});
            happen(tx, app, &mut email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if app.relay.is_some() && relaying::is_for_relay(address) {
            relayed = true;
            continue;
        }
        match Outcome::of(address) {
            Outcome::Delivered => happen(tx, app, &mut email, position, Change::Delivered, None)?,
            Outcome::Bounced => {
                let detail = json!({"type": "hard", "reason": "550 5.1.1 no such mailbox"});
                happen(tx, app, &mut email, position, Change::Bounced, Some(&detail))?;
            }
            Outcome::Complained => {
                happen(tx, app, &mut email, position, Change::Delivered, None)?;
                let detail = json!({"reason": "marked as spam by the recipient"});
                happen(tx, app, &mut email, position, Change::Complained, Some(&detail))?;
            }
            Outcome::Failed => {
                let detail = json!({"reason": "the mail engine could not send the message"});
                happen(tx, app, &mut email, position, Change::Failed, Some(&detail))?;
            }
            Outcome::Delayed => {
                tx.due(tx.now + DELAY, DueKind::Recipient, &format!("{id} {position}"))?;
            }
        }
    }
    email.updated_at = tx.now;
    email.status = course::overall(&email.recipients);
    if relayed {
        relaying::queue(tx, email.organization, &email.id)?;
    }
    stored::update(tx, &email)
}

fn deliver_delayed(tx: &mut Tx<'_>, app: &App, of: &str) -> Result<(), ApiError> {
    let Some((id, position)) = of.split_once(' ') else { return Ok(()) };
    let Some(mut email) = stored::find(tx.connection(), id)? else { return Ok(()) };
    let position: usize = position.parse().unwrap_or(usize::MAX);
    // Something else may have happened to it by way of the control interface.
    let waiting = email.recipients.get(position).map(|recipient| recipient.status);
    if waiting != Some(Status::Sending) {
        return Ok(());
    }
    happen(tx, app, &mut email, position, Change::Delivered, None)?;
    stored::update(tx, &email)
}

/// Makes something happen to one recipient, with its events; 409 where it
/// cannot happen. The caller stores the email.
pub(crate) fn happen(
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
        let message = format!("a recipient that is {} cannot become this", from.as_str());
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
    email.status = course::overall(&email.recipients);
    Ok(())
}
