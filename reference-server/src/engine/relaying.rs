//! Mail that goes out to the relay: what was taken up waits in the table
//! `relay` until it is handed over, refused, or given up.
//!
//! To the schedule the relay is one more delivery_worker's route, under a name that no
//! webhook has.

use std::sync::Arc;

use serde_json::json;

use super::course::{Change, Outcome, Status};
use super::step::happen;
use crate::address::{Address, Mailbox};
use crate::app::Shared;
use crate::email::source::Message;
use crate::email::stored;
use crate::error::ApiError;
use crate::relay::{Handoff, Relay};
use crate::store::{self, Tx};
use crate::time::Millis;

/// The relay's route.
pub(super) const ROUTE: &str = "relay";

/// The pauses before each repetition after a 4xx reply, in the server's time.
const SCHEDULE: [Millis; 6] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 21_600_000];

/// Puts an email into the queue: some of its recipients are in `sending`.
pub(super) fn queue(tx: &mut Tx<'_>, organization: i64, email: &str) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO relay (email, organization, due_at, retry) VALUES (?1, ?2, ?3, 0)",
        (email, organization, tx.now),
    )?;
    tx.delivery_due(ROUTE, tx.now);
    Ok(())
}

/// Whether a recipient is for the relay; magic recipients stay here.
pub(super) fn is_for_relay(address: &str) -> bool {
    Outcome::of(address) == Outcome::Delivered
}

/// Hands over what is due, one message after the other over the one
/// connection; says when the next one is due.
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
    let of = id.clone();
    let message = app.store.read(move |connection| Message::load(connection, &of)).await?;
    let Some(message) = message else { return record(app, id, Vec::new()).await };
    let meant: Vec<usize> = waiting(&message.email).collect();
    // One message for all, or one for each.
    let at_once = if message.is_individual() { 1 } else { meant.len().max(1) };
    let message = Arc::new(message);
    let mut outcomes = Vec::with_capacity(meant.len());
    for meant in meant.chunks(at_once) {
        let handed_over = hand_to(app, relay, &message, meant).await?;
        outcomes.extend(meant.iter().copied().zip(handed_over));
    }
    record(app, id, outcomes).await
}

/// Hands over the message of the recipients at these positions.
async fn hand_to(
    app: &Shared,
    relay: &Relay,
    message: &Arc<Message>,
    meant: &[usize],
) -> Result<Vec<Handoff>, ApiError> {
    let email = &message.email;
    let addresses = meant.iter().map(|&position| email.recipients[position].address.as_str());
    let recipients = addresses.map(wire).collect::<Result<Vec<_>, _>>()?;
    let from = Mailbox::parse(&email.meta.from).map_err(ApiError::internal)?;
    let sender = from.address.wire().into_owned();
    let (message, first, open) = (Arc::clone(message), meant[0], app.settings.is_exposed());
    let rendered = tokio::task::spawn_blocking(move || {
        message.source(&message.email.recipients[first].address, open)
    });
    let source = rendered.await.unwrap_or_else(|error| Err(ApiError::internal(error)))?;
    Ok(relay.send(&sender, &recipients, &source).await)
}

fn waiting(email: &stored::Stored) -> impl Iterator<Item = usize> {
    let all = email.recipients.iter().enumerate();
    all.filter(|(_, recipient)| {
        recipient.status == Status::Sending && is_for_relay(&recipient.address)
    })
    .map(|(position, _)| position)
}

fn wire(address: &str) -> Result<String, ApiError> {
    let address = Address::parse(address).map_err(ApiError::internal)?;
    Ok(address.wire().into_owned())
}

/// Writes down what became of each recipient, and when those that were put off
/// are tried again.
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
        let mut again = false;
        for (position, outcome) in outcomes {
            // Something else may have happened to it by way of the control interface.
            if email.recipients[position].status != Status::Sending {
                continue;
            }
            let (change, detail) = match (outcome, pause) {
                (Handoff::Accepted, _) => (Change::Delivered, None),
                (Handoff::Refused(reason), _) => {
                    (Change::Bounced, Some(json!({"type": "hard", "reason": reason.to_string()})))
                }
                (Handoff::Deferred(reason), None) => {
                    (Change::Bounced, Some(json!({"type": "soft", "reason": reason.to_string()})))
                }
                (Handoff::Deferred(reason), Some(_)) => {
                    let reason = json!({"reason": reason.to_string()});
                    email.recipients[position].detail = Some(reason);
                    again = true;
                    continue;
                }
            };
            happen(tx, &context, &mut email, position, change, detail.as_ref())?;
        }
        stored::update(tx, &email)?;
        match pause.filter(|_| again) {
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

/// When the first message of the queue is due, for the start.
pub(crate) fn next_due(
    connection: &rusqlite::Connection,
) -> rusqlite::Result<Option<(String, Millis)>> {
    let sql = "SELECT due_at FROM relay ORDER BY due_at LIMIT 1";
    let next = store::find(connection, sql, [], |row| row.get(0))?;
    Ok(next.map(|due_at| (ROUTE.to_owned(), due_at)))
}
