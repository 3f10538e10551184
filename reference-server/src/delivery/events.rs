//! Applies a change to a recipient: the delivery into a mailbox, and the webhook events.

use serde_json::Value;

use super::emit::{About, Data, emit};
use super::{local, payload};
use crate::app::App;
use crate::model::error::{ApiError, Code};
use crate::model::event::Event;
use crate::model::status::{self, Change, Status};
use crate::store::Tx;
use crate::store::emails::StoredEmail;

/// Applies a change to one recipient and emits its events. The caller stores the email.
///
/// # Errors
///
/// `Conflict` (409) if the change is not possible in the recipient's status.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut StoredEmail,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(from) = email
        .recipients
        .get(position)
        .map(|recipient| recipient.status)
    else {
        return Ok(());
    };
    let Some(steps) = change.steps(from) else {
        let message = format!(
            "this event is not possible for a recipient with the status {}",
            from.as_str()
        );
        return Err(ApiError::new(Code::Conflict, message));
    };
    let last_event = steps.last().map(|(_, event)| *event);
    for (status, event) in steps {
        let last = Some(event) == last_event;
        let recipient = &mut email.recipients[position];
        recipient.status = status;
        if last {
            recipient.detail = detail.cloned().or(recipient.detail.take());
        }
        if status == Status::Delivered && event == Event::EmailDelivered {
            local::deliver(tx, app, email, &email.recipients[position].address)?;
        }
        let now = tx.now;
        let (organization, detail) = (email.organization, detail.filter(|_| last));
        email.note(now, status, Some(event.as_str()), Some(position));
        let recipient = &email.recipients[position];
        let about = About {
            email: Some(&email.id),
            recipient: Some(&recipient.address),
            subject: Some(&email.subject),
        };
        emit(tx, organization, event, about, |_| {
            let rest = payload::outgoing(email, recipient, event, detail, now)?;
            Ok(Data { shared: None, rest })
        })?;
        email.last_event = Some(event.as_str().to_owned());
    }
    email.updated_at = tx.now.into();
    email.status = status::overall(&email.recipients);
    Ok(())
}
