//! Hands mail over to the relay. An email is a job until its recipients are accepted, rejected,
//! or given up.

use std::sync::Arc;

use serde_json::json;

use crate::app::{App, Shared};
use crate::emails::{email_rows, email_rules};
use crate::jobs::{Job, Queue, job_rows};
use crate::mail::relay::{Handoff, Relay};
use crate::messages::message_rules::Message;
use crate::model::status::simulated;
use crate::model::{Address, Change, Failure, Mailbox, Millis, Result, Status};
use crate::runtime::{heavy, memory};
use crate::store::Tx;

/// The pause before each retry after a temporary failure (4xx), in milliseconds of the
/// server's clock.
const SCHEDULE: [Millis; 6] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 21_600_000];

/// Hands over an email, and records the outcomes of each of its messages.
pub(crate) async fn hand_over(app: &Shared, id: String) -> Result<()> {
    let Some(relay) = &app.relay else {
        return Ok(());
    };

    let wanted = id.clone();
    let size = app
        .store
        .read(move |reader| email_rows::content_size(reader, &wanted));
    let _reserved = memory::RELAYED.reserve(size.await?).await;
    let wanted = id.clone();
    let read = app.store.read(move |reader| {
        let unconfirmed = job_rows::handed_over(reader, &wanted)?;
        Ok((Message::load(reader, &wanted)?, unconfirmed))
    });
    if let (Some(message), unconfirmed) = read.await? {
        let (unconfirmed, positions): (Vec<usize>, Vec<usize>) =
            pending_positions(&message.email).partition(|position| unconfirmed.contains(position));
        let address = |position: &usize| &*message.email.recipients[*position].address;
        // An earlier server may have been allowed to send to others.
        let (positions, excluded): (Vec<usize>, Vec<usize>) = positions
            .into_iter()
            .partition(|position| relay.is_for(address(position)));
        let refused = Handoff::Refused(EXCLUDED.to_owned());
        let excluded = excluded
            .into_iter()
            .map(|position| (position, refused.clone()));
        record(app, &id, excluded.collect()).await?;
        let unknown = Handoff::Unknown(ENDED.to_owned());
        let unknown = unconfirmed
            .into_iter()
            .map(|position| (position, unknown.clone()));
        record(app, &id, unknown.collect()).await?;
        // One message for all recipients, or one for each.
        let chunk_size = if message.is_individual() {
            1
        } else {
            positions.len().max(1)
        };
        let message = Arc::new(message);
        for positions in positions.chunks(chunk_size) {
            // The next server hands over the rest.
            if app.stop.is_requested() {
                return Ok(());
            }
            let outcomes = match hand_to(app, relay, &message, positions).await {
                Ok(outcomes) => outcomes,
                // An error of this server, which does not hold back the messages after this one.
                Err(_) => vec![Handoff::Deferred(DEFECT.to_owned()); positions.len()],
            };
            record(app, &id, positions.iter().copied().zip(outcomes).collect()).await?;
        }
    }

    let ended = app.record(move |tx| {
        let job = Job::new(Queue::Relay, &id);
        let retry = job_rows::attempt(tx.reader(), &job)?.unwrap_or_default();
        let email = email_rows::find(tx.reader(), &id)?;
        let is_deferred = email.is_some_and(|email| pending_positions(&email).next().is_some());
        match pause(retry).filter(|_| is_deferred) {
            Some(pause) => job_rows::retry(tx, &job, tx.now + pause, retry + 1),
            None => job_rows::done(tx, &job).map(drop),
        }
    });
    ended.await
}

const DEFECT: &str = "the message cannot be sent by this server; see its log";
const EXCLUDED: &str = "this server may not relay mail to the recipient; name it with --relay-to";
const ENDED: &str = "the relay did not confirm the message, and may have accepted it: this server \
                     ended before the reply";

/// Hands over the message for the recipients at these positions.
async fn hand_to(
    app: &Shared,
    relay: &Relay,
    message: &Arc<Message>,
    positions: &[usize],
) -> Result<Vec<Handoff>> {
    let email = &message.email;
    let addresses = positions
        .iter()
        .map(|&position| email.recipients[position].address.as_str());
    let recipients = addresses
        .map(envelope_address)
        .collect::<Result<Vec<_>, _>>()?;
    let from = Mailbox::parse(&email.from).map_err(Failure::internal)?;
    let sender = from.address.to_ascii();
    let shared = Arc::clone(message);
    let first = positions[0];
    let open = app.settings.is_exposed();
    let render = move || shared.source(&shared.email.recipients[first].address, open);
    let source = heavy::run(render).await?;
    // Recorded durably: if this server ends before it records the outcome, the next one knows that
    // the relay may have the message.
    let before_message = |outcomes: &[Handoff]| {
        let with_outcome = positions.iter().copied().zip(outcomes);
        let accepted = with_outcome.filter(|(_, outcome)| **outcome == Handoff::Accepted);
        let accepted: Vec<usize> = accepted.map(|(position, _)| position).collect();
        let id = email.id.clone();
        app.store
            .write(move |tx| job_rows::set_handed_over(tx, &id, &accepted))
    };

    Ok(relay
        .send(&sender, &recipients, &source, before_message)
        .await)
}

/// The pause before this retry; `None` after the last one.
fn pause(retry: i64) -> Option<Millis> {
    usize::try_from(retry)
        .ok()
        .and_then(|retry| SCHEDULE.get(retry))
        .copied()
}

fn pending_positions(email: &email_rows::StoredEmail) -> impl Iterator<Item = usize> {
    let all = email.recipients.iter().enumerate();
    all.filter(|(_, recipient)| {
        recipient.status == Status::Sending && simulated(&recipient.address) == [Change::Delivered]
    })
    .map(|(position, _)| position)
}

fn envelope_address(address: &str) -> Result<String> {
    let address = Address::parse(address).map_err(Failure::internal)?;
    Ok(address.to_ascii().into_owned())
}

/// Records the outcomes of the recipients at these positions.
async fn record(app: &Shared, id: &str, outcomes: Vec<(usize, Handoff)>) -> Result<()> {
    if outcomes.is_empty() {
        return Ok(());
    }

    let shared = Arc::new((Arc::clone(app), id.to_owned(), outcomes));
    let recorded = app.record(move |tx| {
        let (app, id, outcomes) = &*shared;
        let job = Job::new(Queue::Relay, id);
        // None if the email was deleted.
        let retry = job_rows::attempt(tx.reader(), &job)?;
        let (Some(retry), Some(mut email)) = (retry, email_rows::find(tx.reader(), id)?) else {
            return Ok(());
        };
        apply(tx, app, &mut email, outcomes, pause(retry))?;
        email_rows::update(tx, &email)?;
        job_rows::set_handed_over(tx, id, &[])
    });

    recorded.await
}

/// Applies the outcomes of the recipients at these positions. A deferred recipient stays `sending`.
fn apply(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut email_rows::StoredEmail,
    outcomes: &[(usize, Handoff)],
    pause: Option<Millis>,
) -> Result<()> {
    for (position, outcome) in outcomes {
        // The control interface may have changed the recipient in the meantime.
        if email.recipients[*position].status != Status::Sending {
            continue;
        }
        let (change, detail) = match (outcome, pause) {
            (Handoff::Accepted, _) => (Change::Delivered, None),
            (Handoff::Refused(reason), _) => (
                Change::Bounced,
                Some(json!({"reason": reason, "type": "hard"})),
            ),
            (Handoff::Unknown(reason), _) => (Change::Sent, Some(json!({"reason": reason}))),
            (Handoff::Deferred(reason), None) => (
                Change::Bounced,
                Some(json!({"reason": reason, "type": "soft"})),
            ),
            (Handoff::Deferred(reason), Some(_)) => {
                let reason = json!({"reason": reason});
                email.recipients[*position].detail = Some(reason);
                continue;
            }
        };
        email_rules::apply(tx, app, email, *position, change, detail.as_ref())?;
    }
    Ok(())
}
