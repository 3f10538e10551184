//! Hands mail over to the relay. An email is a job until its recipients are accepted, rejected,
//! or given up.

use std::sync::Arc;

use serde_json::json;

use super::events;
use crate::app::{App, Shared};
use crate::delivery::source::Message;
use crate::mail::relay::{Envelope, Handoff, Reason, Relay};
use crate::model::address::{Address, Mailbox};
use crate::model::error::ApiError;
use crate::model::job::{Job, Queue};
use crate::model::status::{Change, Outcome, Status};
use crate::model::time::Millis;
use crate::runtime::heavy;
use crate::store::{Tx, emails, jobs};

/// The pause before each retry after a temporary failure (4xx), in milliseconds of the
/// server's clock.
const SCHEDULE: [Millis; 6] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 21_600_000];

/// Whether a recipient is relayed. Magic recipients are handled locally.
pub(crate) fn is_for_relay(address: &str) -> bool {
    Outcome::of(address) == Outcome::Delivered
}

/// What became of the messages of an email.
#[derive(Clone, Default)]
struct Relayed {
    /// The outcome of each recipient, by position.
    outcomes: Vec<(usize, Handoff)>,
    /// A stop came before the other messages were handed over.
    is_cut: bool,
}

/// Hands over an email, and records the outcomes.
pub(crate) async fn hand_over(app: &Shared, email: String) -> Result<(), ApiError> {
    let Some(relay) = &app.relay else { return Ok(()) };
    let sent = send(app, relay, &email).await?;
    record(app, email, sent).await
}

/// Sends the messages of an email.
async fn send(app: &Shared, relay: &Relay, id: &str) -> Result<Relayed, ApiError> {
    let wanted = id.to_owned();
    let read = app.store.read(move |reader| {
        let unconfirmed = jobs::handed_over(reader, &wanted)?;
        Ok((Message::load(reader, &wanted)?, unconfirmed))
    });
    let (Some(message), unconfirmed) = read.await? else { return Ok(Relayed::default()) };
    let mut sent = Relayed::default();
    let (unconfirmed, positions): (Vec<usize>, Vec<usize>) =
        pending_positions(&message.email).partition(|position| unconfirmed.contains(position));
    let unknown = Handoff::Unknown(Reason::new(ENDED));
    sent.outcomes.extend(unconfirmed.into_iter().map(|position| (position, unknown.clone())));
    // One message for all recipients, or one for each.
    let chunk_size = if message.is_individual() { 1 } else { positions.len().max(1) };
    let message = Arc::new(message);
    for positions in positions.chunks(chunk_size) {
        let handed_over = match hand_to(app, relay, &message, positions, &sent).await {
            Ok(Some(handed_over)) => handed_over,
            Ok(None) => {
                sent.is_cut = true;
                break;
            }
            // An error of this server. It neither holds back the messages after this one nor
            // loses the outcomes of those before.
            Err(_) => vec![Handoff::Deferred(Reason::new(DEFECT)); positions.len()],
        };
        sent.outcomes.extend(positions.iter().copied().zip(handed_over));
    }
    Ok(sent)
}

const DEFECT: &str = "the message cannot be sent by this server; see its log";
const ENDED: &str = "the relay did not confirm the message, and may have accepted it: this server \
                     ended before the reply";

/// Hands over the message for the recipients at these positions, after others with the outcomes
/// in `sent`. Returns `None` if a stop came before.
async fn hand_to(
    app: &Shared,
    relay: &Relay,
    message: &Arc<Message>,
    positions: &[usize],
    sent: &Relayed,
) -> Result<Option<Vec<Handoff>>, ApiError> {
    let email = &message.email;
    let addresses = positions.iter().map(|&position| email.recipients[position].address.as_str());
    let recipients = addresses.map(envelope_address).collect::<Result<Vec<_>, _>>()?;
    let from = Mailbox::parse(&email.fields.from).map_err(ApiError::internal)?;
    let sender = from.address.to_ascii().into_owned();
    let id = email.id.clone();
    let (message, first, open) = (Arc::clone(message), positions[0], app.settings.is_exposed());
    let render = move || message.source(&message.email.recipients[first].address, open);
    let source = tokio::select! {
        source = heavy::run(render) => source?,
        () = app.stop.until_cut() => return Ok(None),
    };
    let before_message = |outcomes: &[Handoff]| {
        let with_outcome = positions.iter().copied().zip(outcomes);
        let accepted = with_outcome.filter(|(_, outcome)| **outcome == Handoff::Accepted);
        let accepted: Vec<usize> = accepted.map(|(position, _)| position).collect();
        record_handover(app, id.clone(), sent.clone(), accepted)
    };
    let envelope = Envelope { sender: &sender, recipients: &recipients, before_message };
    Ok(relay.send(&app.stop, envelope, &source).await)
}

/// Records, durably, that the relay gets the message for the recipients at these positions, and
/// the outcomes of those before. If this server is killed before it records the outcome, the next
/// one knows that the relay may have the message.
async fn record_handover(
    app: &Shared,
    id: String,
    sent: Relayed,
    positions: Vec<usize>,
) -> Result<(), ApiError> {
    let context = Arc::clone(app);
    let recorded = app.store.write(move |tx| {
        let job = Job::new(Queue::Relay, &id);
        let retry = jobs::attempt(tx.reader(), &job)?;
        let (Some(retry), Some(mut email)) = (retry, emails::find(tx.reader(), &id)?) else {
            return Err(ApiError::not_found("email"));
        };
        if !sent.outcomes.is_empty() {
            apply(tx, &context, &mut email, &sent.outcomes, pause(retry))?;
            emails::update(tx, &email)?;
        }
        jobs::set_handed_over(tx, &id, &positions)
    });
    recorded.await
}

/// The pause before this retry; `None` after the last one.
fn pause(retry: i64) -> Option<Millis> {
    usize::try_from(retry).ok().and_then(|retry| SCHEDULE.get(retry)).copied()
}

fn pending_positions(email: &emails::StoredEmail) -> impl Iterator<Item = usize> {
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
async fn record(app: &Shared, id: String, sent: Relayed) -> Result<(), ApiError> {
    let context = Arc::clone(app);
    let recorded = app.record(move |tx| {
        let job = Job::new(Queue::Relay, &id);
        let retry = jobs::attempt(tx.reader(), &job)?;
        let (Some(retry), Some(mut email)) = (retry, emails::find(tx.reader(), &id)?) else {
            jobs::done(tx, &job)?;
            return Ok(());
        };
        let pause = pause(retry);
        let any_deferred = apply(tx, &context, &mut email, &sent.outcomes, pause)?;
        emails::update(tx, &email)?;
        jobs::set_handed_over(tx, &id, &[])?;
        match pause.filter(|_| any_deferred) {
            // The next server hands over the rest at once.
            _ if sent.is_cut => {}
            Some(pause) => jobs::retry(tx, &job, tx.now + pause, retry + 1)?,
            None => drop(jobs::done(tx, &job)?),
        }
        Ok(())
    });
    recorded.await
}

/// Applies the outcomes of the recipients at these positions. Those of recipients with another
/// status than `sending` are applied already. Returns whether there is a deferred one.
fn apply(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut emails::StoredEmail,
    outcomes: &[(usize, Handoff)],
    pause: Option<Millis>,
) -> Result<bool, ApiError> {
    let mut any_deferred = false;
    for (position, outcome) in outcomes {
        // The control interface may have changed the recipient in the meantime.
        if email.recipients[*position].status != Status::Sending {
            continue;
        }
        let (change, detail) = match (outcome, pause) {
            (Handoff::Accepted, _) => (Change::Delivered, None),
            (Handoff::Refused(reason), _) => {
                (Change::Bounced, Some(json!({"reason": reason.to_string(), "type": "hard"})))
            }
            (Handoff::Unknown(reason), _) if !app.settings.relay_again => {
                (Change::Sent, Some(json!({"reason": reason.to_string()})))
            }
            (Handoff::Deferred(reason) | Handoff::Unknown(reason), None) => {
                (Change::Bounced, Some(json!({"reason": reason.to_string(), "type": "soft"})))
            }
            (Handoff::Deferred(reason) | Handoff::Unknown(reason), Some(_)) => {
                let reason = json!({"reason": reason.to_string()});
                email.recipients[*position].detail = Some(reason);
                any_deferred = true;
                continue;
            }
        };
        events::apply(tx, app, email, *position, change, detail.as_ref())?;
    }
    Ok(any_deferred)
}
