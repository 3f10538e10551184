//! Hands mail over to the relay. An email waits in the table `relay` until its
//! recipients are accepted, rejected, or given up.
//!
//! For the schedule, the relay is one more worker, under a route name that no webhook
//! id can have.

use std::sync::Arc;

use serde_json::json;

use super::lifecycle::{Change, Outcome, Status};
use super::step::apply_event;
use crate::address::{Address, Mailbox};
use crate::app::Shared;
use crate::email::source::Message;
use crate::email::stored;
use crate::error::ApiError;
use crate::relay::{Handoff, Relay};
use crate::store::{self, Tx};
use crate::time::Millis;

/// Route name of the relay in the engine's schedule.
pub(super) const ROUTE: &str = "relay";

/// The pause before each retry after a temporary failure (4xx), in milliseconds of the
/// server's clock.
const SCHEDULE: [Millis; 6] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 21_600_000];

/// Queues an email that has recipients in `sending`.
pub(super) fn queue(tx: &mut Tx<'_>, organization: i64, email: &str) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO relay (email, organization, due_at, retry) VALUES (?1, ?2, ?3, 0)",
        (email, organization, tx.now),
    )?;
    tx.delivery_due(ROUTE, tx.now);
    Ok(())
}

/// Whether a recipient is relayed. Magic recipients are handled locally.
pub(super) fn is_for_relay(address: &str) -> bool {
    Outcome::of(address) == Outcome::Delivered
}

/// Hands over due messages, one after the other over one connection. Returns when the
/// next one is due.
pub(super) async fn run(app: &Shared) -> Result<Millis, ApiError> {
    let Some(relay) = &app.relay else { return Ok(Millis::MAX) };
    while !*app.stopping.borrow() {
        let now = app.clock.now();
        let next = app.store.read(move |connection| {
            let sql = "SELECT email, due_at FROM relay ORDER BY due_at LIMIT 1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
            Ok(store::find(connection, sql, [], read)?)
        });
        match next.await? {
            Some((email, due_at)) if due_at <= now => hand_over(app, relay, email).await?,
            Some((_, due_at)) => return Ok(due_at),
            None => return Ok(Millis::MAX),
        }
    }
    Ok(Millis::MAX)
}

async fn hand_over(app: &Shared, relay: &Relay, id: String) -> Result<(), ApiError> {
    let kept = app.unrecorded.relayed().get(&id).cloned();
    let outcomes = match kept {
        // Handed over before, but the outcomes could not be stored.
        Some(outcomes) => outcomes,
        None => {
            let outcomes = send(app, relay, &id).await?;
            app.unrecorded.relayed().insert(id.clone(), outcomes.clone());
            outcomes
        }
    };
    record(app, id.clone(), outcomes).await?;
    app.unrecorded.relayed().remove(&id);
    Ok(())
}

/// Sends the messages of an email. Returns the outcome of each recipient, by position.
async fn send(app: &Shared, relay: &Relay, id: &str) -> Result<Vec<(usize, Handoff)>, ApiError> {
    let email_id = id.to_owned();
    let message = app.store.read(move |connection| Message::load(connection, &email_id)).await?;
    let Some(message) = message else { return Ok(Vec::new()) };
    let positions: Vec<usize> = pending_positions(&message.email).collect();
    // One message for all recipients, or one for each.
    let chunk_size = if message.is_individual() { 1 } else { positions.len().max(1) };
    let message = Arc::new(message);
    let mut outcomes = Vec::with_capacity(positions.len());
    for positions in positions.chunks(chunk_size) {
        let handed_over = hand_to(app, relay, &message, positions).await?;
        outcomes.extend(positions.iter().copied().zip(handed_over));
    }
    Ok(outcomes)
}

/// Hands over the message for the recipients at these positions.
async fn hand_to(
    app: &Shared,
    relay: &Relay,
    message: &Arc<Message>,
    positions: &[usize],
) -> Result<Vec<Handoff>, ApiError> {
    let email = &message.email;
    let addresses = positions.iter().map(|&position| email.recipients[position].address.as_str());
    let recipients = addresses.map(envelope_address).collect::<Result<Vec<_>, _>>()?;
    let from = Mailbox::parse(&email.meta.from).map_err(ApiError::internal)?;
    let sender = from.address.to_ascii().into_owned();
    let (message, first, open) = (Arc::clone(message), positions[0], app.settings.is_exposed());
    let rendered = tokio::task::spawn_blocking(move || {
        message.source(&message.email.recipients[first].address, open)
    });
    let source = rendered.await.unwrap_or_else(|error| Err(ApiError::internal(error)))?;
    Ok(relay.send(&sender, &recipients, &source).await)
}

fn pending_positions(email: &stored::Stored) -> impl Iterator<Item = usize> {
    let all = email.recipients.iter().enumerate();
    all.filter(|(_, recipient)| {
        recipient.status == Status::Sending && is_for_relay(&recipient.address)
    })
    .map(|(position, _)| position)
}

fn envelope_address(address: &str) -> Result<String, ApiError> {
    let address = Address::parse(address).map_err(ApiError::internal)?;
    Ok(address.to_ascii().into_owned())
}

/// Records the outcome of each recipient, and schedules the retry of deferred ones.
async fn record(app: &Shared, id: String, outcomes: Vec<(usize, Handoff)>) -> Result<(), ApiError> {
    let context = Arc::clone(app);
    let recorded = app.store.write_relaxed(move |tx| {
        let sql = "SELECT retry FROM relay WHERE email = ?1";
        let retry: Option<i64> = tx.find(sql, [&id], |row| row.get(0))?;
        let (Some(retry), Some(mut email)) = (retry, stored::find(tx.connection(), &id)?) else {
            tx.execute("DELETE FROM relay WHERE email = ?1", [&id])?;
            return Ok(());
        };
        let pause = usize::try_from(retry).ok().and_then(|retry| SCHEDULE.get(retry));
        let mut any_deferred = false;
        for (position, outcome) in outcomes {
            // The control interface may have changed the recipient in the meantime.
            if email.recipients[position].status != Status::Sending {
                continue;
            }
            let (change, detail) = match (outcome, pause) {
                (Handoff::Accepted, _) => (Change::Delivered, None),
                (Handoff::Refused(reason), _) => {
                    (Change::Bounced, Some(json!({"type": "hard", "reason": reason.to_string()})))
                }
                (Handoff::Unknown(reason), _) if !context.settings.relay_again => {
                    (Change::Sent, Some(json!({"reason": reason.to_string()})))
                }
                (Handoff::Deferred(reason) | Handoff::Unknown(reason), None) => {
                    (Change::Bounced, Some(json!({"type": "soft", "reason": reason.to_string()})))
                }
                (Handoff::Deferred(reason) | Handoff::Unknown(reason), Some(_)) => {
                    let reason = json!({"reason": reason.to_string()});
                    email.recipients[position].detail = Some(reason);
                    any_deferred = true;
                    continue;
                }
            };
            apply_event(tx, &context, &mut email, position, change, detail.as_ref())?;
        }
        stored::update(tx, &email)?;
        match pause.filter(|_| any_deferred) {
            Some(pause) => {
                let due_at = tx.now + pause;
                let sql = "UPDATE relay SET due_at = ?2, retry = ?3 WHERE email = ?1";
                tx.execute(sql, (&id, due_at, retry + 1))?;
                tx.delivery_due(ROUTE, due_at);
            }
            None => {
                tx.execute("DELETE FROM relay WHERE email = ?1", [&id])?;
            }
        }
        Ok(())
    });
    recorded.await
}

/// The due time of the first queued message, for the start of the engine.
pub(crate) fn next_due(
    connection: &rusqlite::Connection,
) -> rusqlite::Result<Option<(String, Millis)>> {
    let sql = "SELECT due_at FROM relay ORDER BY due_at LIMIT 1";
    let next = store::find(connection, sql, [], |row| row.get(0))?;
    Ok(next.map(|due_at| (ROUTE.to_owned(), due_at)))
}
