//! Tells the clients that watch about changes of deliveries.

use super::{COLUMNS, read};
use crate::control::deliveries::DeliveryChange;
use crate::model::error::ApiError;
use crate::model::timestamp::Timestamp;
use crate::store::Tx;

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
