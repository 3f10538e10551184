//! Sends an email: for each recipient, into a local mailbox or to the relay, and the events that
//! follow.

use serde_json::{Value, json};

use super::events;
use crate::app::App;
use crate::model::error::ApiError;
use crate::model::job::{Job, Queue};
use crate::model::status::{self, Change, Status};
use crate::model::time::Millis;
use crate::store::emails::StoredEmail;
use crate::store::{Tx, domains, jobs};

/// Number of written rows after which a transaction leaves other emails to the next one, so that
/// no request waits long for it.
pub(crate) const MAX_ROWS: u64 = 4_000;

/// How long a `delayed@…` recipient stays in `sending`, in milliseconds.
const DELAY: Millis = 60_000;

/// Sends a queued email. The caller stores it.
pub(crate) fn send(tx: &mut Tx<'_>, app: &App, email: &mut StoredEmail) -> Result<(), ApiError> {
    // Check again: the domain of a scheduled email may have been deleted since
    // (`docs/undocumented/services.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || !domains::owners(tx.reader(), &email.domain, Some(email.organization))?.is_empty();
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is no longer verified"});
            events::apply(tx, app, email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if app
            .relay
            .as_ref()
            .is_some_and(|relay| relay.is_for(address))
        {
            relayed = true;
            continue;
        }
        let changes = status::simulated(address);
        if changes.is_empty() {
            let position = Some(position);
            let job = Job {
                queue: Queue::Mail,
                subject: email.id.clone(),
                position,
            };
            jobs::add(tx, email.organization, &job, tx.now + DELAY, 0, None)?;
        }
        for change in changes {
            let detail = match change {
                Change::Bounced => json!({"reason": "550 5.1.1 no such mailbox", "type": "hard"}),
                Change::Complained => json!({"reason": "marked as spam by the recipient"}),
                Change::Failed => json!({"reason": "the mail engine could not send the message"}),
                _ => Value::Null,
            };
            let detail = Some(&detail).filter(|detail| !detail.is_null());
            events::apply(tx, app, email, position, *change, detail)?;
        }
    }
    email.updated_at = tx.now.into();
    email.status = status::overall(&email.recipients);
    if relayed {
        let job = Job::new(Queue::Relay, &email.id);
        jobs::add(tx, email.organization, &job, tx.now, 0, None)?;
    }
    Ok(())
}
