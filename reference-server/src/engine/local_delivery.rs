//! Local delivery: mail that does not leave the server goes into a local mailbox. If
//! the recipient's domain is verified on this server, its owners also receive
//! `email.received`, as for mail from anywhere.
//!
//! For the schedule, this is one more worker, under a route name that no webhook id can
//! have. It renders and authenticates a message outside the transaction that delivers
//! it, and only if someone subscribes to the event.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::address::{Address, Mailbox};
use crate::app::{App, Shared};
use crate::dkim;
use crate::dns::{self, INBOUND_HOST};
use crate::email::source::Message;
use crate::email::stored::Stored;
use crate::error::ApiError;
use crate::id::{self, Prefix};
use crate::inbound::{self, AuthenticatedMessage};
use crate::store::{self, Tx};
use crate::time::Millis;
use crate::webhooks::Event;

pub(super) const ROUTE: &str = "local_delivery";

/// Maximum number of messages rendered and authenticated at the same time.
const MAX_CONCURRENT: usize = 8;
/// Maximum number of messages read ahead.
const READ_AHEAD: i64 = 64;

/// Puts the message for this recipient into its mailbox.
pub(super) fn deliver(
    tx: &mut Tx<'_>,
    app: &App,
    email: &Stored,
    recipient: &str,
) -> Result<(), ApiError> {
    let id = id::new(Prefix::Message);
    let owners = owners(tx, app, recipient)?;
    let own_domain = owners.iter().find(|(_, organization)| *organization == email.organization);
    tx.execute(
        "INSERT INTO message (organization, id, recipient, email, domain, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            email.organization,
            &id,
            recipient,
            &email.id,
            own_domain.map(|(domain, _)| domain),
            tx.now,
        ),
    )?;
    tx.message_stored(email.organization, recipient);
    let is_notified = |(_, organization): &(String, i64)| {
        *organization != email.organization
            || !app.webhooks.subscribers(*organization, Event::EmailReceived).is_empty()
    };
    if owners.iter().any(is_notified) {
        tx.execute("INSERT INTO local_delivery VALUES (?1, ?2)", (&id, email.organization))?;
        tx.delivery_due(ROUTE, tx.now);
    }
    Ok(())
}

/// Organizations that own the recipient's domain on this server. None if mail is
/// relayed: the relay decides where it goes, and may send it back.
fn owners(tx: &Tx<'_>, app: &App, recipient: &str) -> Result<Vec<(String, i64)>, ApiError> {
    if app.relay.is_some() || app.verified.is_empty() {
        return Ok(Vec::new());
    }
    match Address::parse(recipient) {
        Ok(address) if app.verified.has(address.domain().as_str()) => {
            inbound::owners(tx, address.domain().as_str(), None)
        }
        _ => Ok(Vec::new()),
    }
}

/// Emits `email.received` for local deliveries until none is pending.
pub(super) async fn run(app: &Shared) -> Result<Millis, ApiError> {
    loop {
        let pending = app.store.read(|connection| {
            let sql = "SELECT message FROM local_delivery ORDER BY message LIMIT ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([READ_AHEAD], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        });
        let pending = pending.await?;
        if pending.is_empty() {
            return Ok(Millis::MAX);
        }
        let notified = stream::iter(pending).map(|id| notify(app, id)).buffered(MAX_CONCURRENT);
        notified.try_collect::<()>().await?;
    }
}

async fn notify(app: &Shared, id: String) -> Result<(), ApiError> {
    let message_id = id.clone();
    let found = app.store.read(move |connection| {
        let sql = "SELECT email, recipient FROM local_delivery JOIN message
                   ON message.organization = local_delivery.organization AND id = message
                   WHERE message = ?1";
        let row = store::find(connection, sql, [&message_id], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, String>(1)?))
        })?;
        let Some((Some(email), recipient)) = row else { return Ok(None) };
        Ok(Message::load(connection, &email)?.map(|message| (message, recipient)))
    });
    // A message deleted in the meantime causes no event.
    let message = match found.await? {
        Some((message, recipient)) => Some(authenticate(app, message, recipient).await?),
        None => None,
    };
    let context = Arc::clone(app);
    let recorded = app.store.write_relaxed(move |tx| {
        let sql = "SELECT organization FROM local_delivery WHERE message = ?1";
        let sender: Option<i64> = tx.find(sql, [&id], |row| row.get(0))?;
        tx.execute("DELETE FROM local_delivery WHERE message = ?1", [&id])?;
        let (Some(sender), Some((message, recipient))) = (sender, message) else { return Ok(()) };
        for (domain, organization) in inbound::owners(tx, recipient.domain().as_str(), None)? {
            if organization == sender {
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

/// Renders the message and checks SPF and DKIM, as a receiving server would.
async fn authenticate(
    app: &Shared,
    message: Message,
    recipient: String,
) -> Result<(AuthenticatedMessage, Address), ApiError> {
    let from = Mailbox::parse(&message.email.meta.from).map_err(ApiError::internal)?.address;
    let recipient = Address::parse(&recipient).map_err(ApiError::internal)?;
    let open = app.settings.is_exposed();
    let address = recipient.as_str().to_owned();
    let source = tokio::task::spawn_blocking(move || message.source(&address, open));
    let source = source.await.unwrap_or_else(|error| Err(ApiError::internal(error)))?;
    // The message was sent from this machine.
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    let (local, domain) = (from.local(), from.domain().as_str());
    let spf = dns::evaluate_spf(&app.resolver, client, INBOUND_HOST, local, domain).await;
    let dkim = dkim::verify(&app.resolver, &source, app.clock.now()).await;
    Ok((inbound::parse(source, spf, dkim).await?, recipient))
}

/// The route of pending local deliveries, for the start of the engine.
pub(crate) fn next_due(
    connection: &rusqlite::Connection,
) -> rusqlite::Result<Option<(String, Millis)>> {
    let sql = "SELECT 1 FROM local_delivery LIMIT 1";
    let pending = store::find(connection, sql, [], |_| Ok(()))?;
    Ok(pending.map(|()| (ROUTE.to_owned(), Millis::MIN)))
}
