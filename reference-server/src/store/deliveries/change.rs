//! Tells the clients that watch about changes of deliveries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{COLUMNS, State, read};
use crate::model::error::ApiError;
use crate::model::timestamp::Timestamp;
use crate::store::Tx;

/// A delivery that changed, as the clients that watch see it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
#[non_exhaustive]
pub struct DeliveryChange {
    /// The event ID.
    pub id: String,
    /// The ID of the webhook.
    pub webhook: String,
    /// `email` or `extraction`.
    pub service: String,
    /// The name of the event, such as `email.delivered`.
    pub event: String,
    /// The ID of the email that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_id: Option<String>,
    /// Whether the webhook accepted it.
    pub state: State,
    /// The number of attempts so far.
    pub attempt_count: i64,
    /// When the next attempt is due.
    pub next_due_at: Option<Timestamp>,
    /// When the event occurred.
    pub created_at: Timestamp,
    /// When the delivery last changed.
    pub updated_at: Timestamp,
}

/// Tells the clients that watch.
pub(super) fn publish(tx: &Tx<'_>, id: &str) -> Result<(), ApiError> {
    if !tx.is_watched() {
        return Ok(());
    }
    let sql = format!("SELECT {COLUMNS}, email, organization FROM delivery WHERE id = ?1");
    let found = tx.find(&sql, [id], |row| Ok((read(row)?, row.get(9)?, row.get(10)?)))?;
    let Some((delivery, email_id, organization)) = found else { return Ok(()) };
    tx.publish(Some(organization), "delivery", || DeliveryChange {
        id: delivery.id,
        webhook: delivery.webhook,
        service: delivery.service.as_str().to_owned(),
        event: delivery.event,
        email_id,
        state: delivery.state,
        attempt_count: delivery.attempts,
        next_due_at: delivery.due_at.map(Timestamp::from),
        created_at: delivery.created_at.into(),
        updated_at: delivery.updated_at.into(),
    });
    Ok(())
}
