//! Local delivery: mail that does not leave the server goes into a local mailbox. If
//! the recipient's domain is verified on this server, its owners also receive
//! `email.received`, as for mail from anywhere.
//!
//! The worker renders and authenticates a message outside the transaction that delivers
//! it, and only if someone subscribes to the event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::Delivery;
use crate::delivery::authentication::{self, Peer};
use crate::delivery::inbound::{self, AuthenticatedMessage};
use crate::delivery::source::Message;
use crate::model::address::{Address, Mailbox};
use crate::model::dns::INBOUND_HOST;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::memory;
use crate::model::time::Millis;
use crate::store::emails::{self, Stored};
use crate::store::in_progress::{Job, Kind};
use crate::store::{Tx, domains, local_deliveries, messages};

/// Maximum number of messages rendered and authenticated at the same time.
const MAX_CONCURRENT: usize = 8;
/// Maximum number of messages read ahead.
const READ_AHEAD: i64 = 64;

/// Puts the message for this recipient into its mailbox.
pub(crate) fn deliver(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    email: &Stored,
    recipient: &str,
) -> Result<(), ApiError> {
    let id = id::new(Prefix::Message);
    let owners = owners(tx, delivery, recipient)?;
    let own_domain = owners.iter().find(|(_, organization)| *organization == email.organization);
    let domain = own_domain.map(|(domain, _)| domain.as_str());
    messages::insert_outgoing(tx, &id, recipient, email, domain)?;
    let is_notified = |(_, organization): &(String, i64)| {
        *organization != email.organization
            || !delivery.webhooks.subscribers(*organization, Event::EmailReceived).is_empty()
    };
    if owners.iter().any(is_notified) {
        local_deliveries::insert(tx, &id, email.organization)?;
    }
    Ok(())
}

/// Organizations that own the recipient's domain on this server. None if mail is
/// relayed: the relay decides where it goes, and may send it back.
fn owners(
    tx: &Tx<'_>,
    delivery: &Delivery,
    recipient: &str,
) -> Result<Vec<(String, i64)>, ApiError> {
    if delivery.relay.is_some() || delivery.verified.is_empty() {
        return Ok(Vec::new());
    }
    match Address::parse(recipient) {
        Ok(address) if delivery.verified.has(address.domain().as_str()) => {
            domains::owners(tx.reader(), address.domain().as_str(), None)
        }
        _ => Ok(Vec::new()),
    }
}

/// Emits `email.received` for local deliveries until none is pending.
pub(crate) async fn run(delivery: &Arc<Delivery>) -> Result<Millis, ApiError> {
    loop {
        let pending = delivery.store.read(|reader| local_deliveries::list(reader, READ_AHEAD));
        let pending = pending.await?;
        if pending.is_empty() || delivery.stop.is_requested() {
            return Ok(Millis::MAX);
        }
        let notified = stream::iter(pending)
            .map(|id| notify(delivery, id))
            .buffer_unordered(MAX_CONCURRENT)
            .collect::<Vec<_>>();
        // One that failed holds none of the others.
        notified.await.into_iter().collect::<Result<(), _>>()?;
    }
}

/// Announces a message.
async fn notify(delivery: &Arc<Delivery>, id: String) -> Result<(), ApiError> {
    let job = Job::new(Kind::Local, &id);
    let done = AssertUnwindSafe(announce(delivery, id, &job)).catch_unwind().await;
    let done = done.unwrap_or_else(|_| Err(ApiError::internal("an announcement panicked")));
    if let Err(error) = &done {
        delivery.store.in_progress.note(&job, error);
    }
    done
}

async fn announce(delivery: &Arc<Delivery>, id: String, job: &Job) -> Result<(), ApiError> {
    let message_id = id.clone();
    let size = delivery.store.read(move |reader| {
        match local_deliveries::email_and_recipient(reader, &message_id)? {
            Some((Some(email), _)) => emails::content_size(reader, &email),
            _ => Ok(0),
        }
    });
    let _reserved = memory::reserve(size.await?).await;
    let message_id = id.clone();
    let found = delivery.store.read(move |reader| {
        let row = local_deliveries::email_and_recipient(reader, &message_id)?;
        let Some((Some(email), recipient)) = row else { return Ok(None) };
        Ok(Message::load(reader, &email)?.map(|message| (message, recipient)))
    });
    // A message deleted in the meantime causes no event.
    let message = match found.await? {
        Some((message, recipient)) => {
            let sender = message.email.organization;
            let (mut message, recipient) = authenticate(delivery, message, recipient, job).await?;
            let domain = recipient.domain().as_str().to_owned();
            let owners = delivery.store.read(move |reader| domains::owners(reader, &domain, None));
            let is_stored = owners.await?.iter().any(|(_, organization)| *organization != sender);
            message.stage(&delivery.store, &delivery.webhooks, is_stored).await?;
            Some((message, recipient))
        }
        None => None,
    };
    let context = Arc::clone(delivery);
    let recorded = delivery.store.write_relaxed(move |tx| {
        let sender = local_deliveries::take(tx, &id)?;
        let (Some(sender), Some((message, recipient))) = (sender, message) else { return Ok(()) };
        for (domain, organization) in
            domains::owners(tx.reader(), recipient.domain().as_str(), None)?
        {
            if organization == sender {
                let results = message.results.to_json()?;
                messages::set_authentication(tx, sender, &id, &results)?;
                inbound::notify_received(tx, &context.webhooks, sender, &id, &recipient, &message)?;
            } else {
                inbound::store_message(
                    tx,
                    &context.webhooks,
                    organization,
                    &domain,
                    &recipient,
                    &message,
                )?;
            }
        }
        Ok(())
    });
    recorded.await
}

/// Renders and checks the message, as a receiving server would.
async fn authenticate(
    delivery: &Arc<Delivery>,
    message: Message,
    recipient: String,
    job: &Job,
) -> Result<(AuthenticatedMessage, Address), ApiError> {
    let from = Mailbox::parse(&message.email.meta.from).map_err(ApiError::internal)?.address;
    let recipient = Address::parse(&recipient).map_err(ApiError::internal)?;
    let open = delivery.is_exposed;
    let address = recipient.as_str().to_owned();
    let size = message.size();
    let render = move || message.source(&address, open);
    let source = Arc::new(delivery.store.run_background(job, size, render).await?);
    // The message was sent from this machine.
    let (local, domain) = (from.local(), from.domain().as_str());
    let peer = Peer { ip: std::net::Ipv4Addr::LOCALHOST.into(), helo: INBOUND_HOST, local, domain };
    let (store, now) = (&delivery.store, delivery.clock.now());
    let results =
        authentication::check(store, &delivery.resolver, job, Some(peer), &source, now).await?;
    let parsed = inbound::parse(store, job, Arc::unwrap_or_clone(source), results);
    Ok((parsed.await?, recipient))
}
