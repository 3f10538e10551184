//! Local delivery: mail that does not leave the server goes into a local mailbox. If
//! the recipient's domain is verified on this server, its owners also receive
//! `email.received`, as for mail from anywhere.
//!
//! A message is rendered and authenticated outside of the transaction that delivers it, and only
//! if someone subscribes to the event.

use std::sync::Arc;

use crate::app::{App, Shared};
use crate::control::messages::{Direction, MessageSummary};
use crate::delivery::authentication;
use crate::delivery::inbound::{self, AuthenticatedMessage};
use crate::delivery::source::Message;
use crate::model::address::{Address, Mailbox};
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id;
use crate::model::job::{Job, Queue};
use crate::runtime::heavy;
use crate::runtime::memory;
use crate::store::emails::{self, StoredEmail};
use crate::store::messages::{self, Received};
use crate::store::{Tx, domains, jobs, webhooks};

/// Puts the message for this recipient into its mailbox.
pub(crate) fn deliver(
    tx: &mut Tx<'_>,
    app: &App,
    email: &StoredEmail,
    recipient: &str,
) -> Result<(), ApiError> {
    let id = id::new(id::MESSAGE);
    let owners = owners(tx, app, recipient)?;
    let own_domain = owners
        .iter()
        .find(|(_, organization)| *organization == email.organization);
    let domain = own_domain.map(|(domain, _)| domain.as_str());
    let message = MessageSummary {
        id: id.clone(),
        direction: Direction::Outgoing,
        email_id: Some(email.id.clone()),
        from: email.from.clone(),
        recipient: recipient.to_owned(),
        subject: email.subject.clone(),
        preview: email.preview.clone(),
        attachments: email.attachments,
        created_at: tx.now.into(),
    };
    messages::insert(tx, email.organization, message, domain, Received::default())?;
    let is_foreign = |(_, organization): &(String, i64)| *organization != email.organization;
    let subscribers =
        |organization| webhooks::subscribers(tx.reader(), organization, Event::EmailReceived);
    if owners.iter().any(is_foreign)
        || domain.is_some() && !subscribers(email.organization)?.is_empty()
    {
        let job = Job::new(Queue::Received, id);
        jobs::add(tx, email.organization, &job, tx.now, 0, None)?;
    }
    Ok(())
}

/// Organizations that own the recipient's domain on this server. None if the message is
/// relayed: the relay decides where it goes, and may send it back.
fn owners(tx: &Tx<'_>, app: &App, recipient: &str) -> Result<Vec<(String, i64)>, ApiError> {
    match Address::parse(recipient) {
        Ok(address)
            if !app
                .relay
                .as_ref()
                .is_some_and(|relay| relay.is_for(recipient)) =>
        {
            domains::owners(tx.reader(), address.domain().as_str(), None)
        }
        _ => Ok(Vec::new()),
    }
}

/// Announces the message that a job is about to the owners of the recipient's domain.
pub(crate) async fn announce(app: &Shared, job: Job) -> Result<(), ApiError> {
    let id = job.subject.clone();
    let size = app.store.read(
        move |reader| match messages::email_and_recipient(reader, &id)? {
            Some((email, _)) => emails::content_size(reader, &email),
            None => Ok(0),
        },
    );
    let _reserved = memory::MESSAGES.reserve(size.await?).await;
    let id = job.subject.clone();
    let found = app.store.read(move |reader| {
        let row = messages::email_and_recipient(reader, &id)?;
        let Some((email, recipient)) = row else {
            return Ok(None);
        };
        Ok(Message::load(reader, &email)?.map(|message| (message, recipient)))
    });
    // A message deleted in the meantime causes no event.
    let message = match found.await? {
        Some((message, recipient)) => {
            let sender = message.email.organization;
            Some((sender, authenticate(app, message, recipient).await?))
        }
        None => None,
    };
    let recorded = app.store.write_relaxed(move |tx| {
        let is_pending = jobs::done(tx, &job)?;
        let Some((sender, (message, recipient))) = message.filter(|_| is_pending) else {
            return Ok(());
        };
        let id = &job.subject;
        for (domain, organization) in
            domains::owners(tx.reader(), recipient.domain().as_str(), None)?
        {
            if organization == sender {
                if let Some(results) = &message.results {
                    messages::set_authentication(tx, id, results)?;
                }
                inbound::notify_received(tx, sender, id, &recipient, &message)?;
            } else {
                inbound::store_message(tx, organization, &domain, &recipient, &message)?;
            }
        }
        Ok(())
    });
    recorded.await
}

/// Renders and checks the message, as a receiving server would.
async fn authenticate(
    app: &Shared,
    message: Message,
    recipient: String,
) -> Result<(AuthenticatedMessage, Address), ApiError> {
    let from = Mailbox::parse(&message.email.from)
        .map_err(ApiError::internal)?
        .address;
    let recipient = Address::parse(&recipient).map_err(ApiError::internal)?;
    let open = app.settings.is_exposed();
    let address = recipient.as_str().to_owned();
    let render = move || message.source(&address, open);
    let source = Arc::new(heavy::run(render).await?);
    // The message was sent from this machine.
    let peer = (std::net::Ipv4Addr::LOCALHOST.into(), from.domain().as_str());
    let now = app.clock.now();
    let results = authentication::check(&app.resolver, Some(peer), &source, now).await?;
    let source = authentication::without_own_results(Arc::unwrap_or_clone(source));
    let parsed = inbound::parse(source, Some(results));
    Ok((parsed.await?, recipient))
}
