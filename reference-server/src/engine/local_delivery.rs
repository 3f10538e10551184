//! Mail that never leaves: delivered into the local mailbox. Where its
//! recipient's domain is verified on this server it has come home, and who has
//! the domain is told, as of mail from anywhere (`email.received`).
//!
//! To the schedule this is one more delivery_worker's route, under a name that no
//! webhook has: a message is rendered and judged outside of the transaction
//! that delivers it, and only if somebody is to be told.

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
use crate::inbound::{self, Judged};
use crate::store::{self, Tx};
use crate::time::Millis;
use crate::webhooks::Event;

pub(super) const ROUTE: &str = "local_delivery";

/// Messages that are rendered and judged at the same time.
const MAX_CONCURRENT: usize = 8;
/// Messages read ahead.
const READ_AHEAD: i64 = 64;

/// Puts a message into the mailbox of this recipient.
pub(super) fn deliver(
    tx: &mut Tx<'_>,
    app: &App,
    email: &Stored,
    recipient: &str,
) -> Result<(), ApiError> {
    let id = id::new(Prefix::Message);
    let takers = takers(tx, app, recipient)?;
    let own = takers.iter().find(|(_, organization)| *organization == email.organization);
    tx.execute(
        "INSERT INTO message (organization, id, recipient, email, domain, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (email.organization, &id, recipient, &email.id, own.map(|(domain, _)| domain), tx.now),
    )?;
    tx.message_arrived();
    let is_told = |(_, organization): &(String, i64)| {
        *organization != email.organization
            || !app.webhooks.subscribers(*organization, Event::EmailReceived).is_empty()
    };
    if takers.iter().any(is_told) {
        tx.execute("INSERT INTO local_delivery VALUES (?1, ?2)", (&id, email.organization))?;
        tx.delivery_due(ROUTE, tx.now);
    }
    Ok(())
}

/// Who takes mail for the recipient on this server. With a relay nobody does:
/// the mail goes to the world, which may bring it back.
fn takers(tx: &Tx<'_>, app: &App, recipient: &str) -> Result<Vec<(String, i64)>, ApiError> {
    if app.relay.is_some() || app.verified.is_empty() {
        return Ok(Vec::new());
    }
    match Address::parse(recipient) {
        Ok(address) if app.verified.has(address.domain().as_str()) => {
            inbound::takers(tx, address.domain().as_str(), None)
        }
        _ => Ok(Vec::new()),
    }
}

/// Tells of what has come home, until nothing is left.
pub(super) async fn run(app: &Shared) -> Result<Millis, ApiError> {
    loop {
        let waiting = app.store.read(|connection| {
            let sql = "SELECT message FROM local_delivery ORDER BY message LIMIT ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([READ_AHEAD], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        });
        let waiting = waiting.await?;
        if waiting.is_empty() {
            return Ok(Millis::MAX);
        }
        let told = stream::iter(waiting).map(|id| tell(app, id)).buffered(MAX_CONCURRENT);
        told.try_collect::<()>().await?;
    }
}

async fn tell(app: &Shared, id: String) -> Result<(), ApiError> {
    let of = id.clone();
    let found = app.store.read(move |connection| {
        let sql = "SELECT email, recipient FROM local_delivery JOIN message
                   ON message.organization = local_delivery.organization AND id = message
                   WHERE message = ?1";
        let row = store::find(connection, sql, [&of], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, String>(1)?))
        })?;
        let Some((Some(email), recipient)) = row else { return Ok(None) };
        Ok(Message::load(connection, &email)?.map(|message| (message, recipient)))
    });
    // Deleted meanwhile, it is told to nobody.
    let judged = match found.await? {
        Some((message, recipient)) => Some(judge(app, message, recipient).await?),
        None => None,
    };
    let context = Arc::clone(app);
    let recorded = app.store.write_relaxed(move |tx| {
        let sql = "SELECT organization FROM local_delivery WHERE message = ?1";
        let sender: Option<i64> = tx.find(sql, [&id], |row| row.get(0))?;
        tx.execute("DELETE FROM local_delivery WHERE message = ?1", [&id])?;
        let (Some(sender), Some((judged, recipient))) = (sender, judged) else { return Ok(()) };
        for (domain, organization) in inbound::takers(tx, recipient.domain().as_str(), None)? {
            if organization == sender {
                inbound::tell(tx, &context.webhooks, sender, &id, &recipient, &judged)?;
            } else {
                inbound::keep(tx, &context.webhooks, organization, &domain, &recipient, &judged)?;
            }
        }
        Ok(())
    });
    recorded.await
}

/// What a receiving server would say of the message.
async fn judge(
    app: &Shared,
    message: Message,
    recipient: String,
) -> Result<(Judged, Address), ApiError> {
    let from = Mailbox::parse(&message.email.meta.from).map_err(ApiError::internal)?.address;
    let recipient = Address::parse(&recipient).map_err(ApiError::internal)?;
    let open = app.settings.is_exposed();
    let of = recipient.as_str().to_owned();
    let source = tokio::task::spawn_blocking(move || message.source(&of, open));
    let source = source.await.unwrap_or_else(|error| Err(ApiError::internal(error)))?;
    // It was sent from this machine.
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    let (local, domain) = (from.local(), from.domain().as_str());
    let spf = dns::evaluate_spf(&app.resolver, here, INBOUND_HOST, local, domain).await;
    let dkim = dkim::verify(&app.resolver, &source, app.clock.now()).await;
    Ok((inbound::parse(source, spf, dkim).await?, recipient))
}

/// Whether anything waits to be told, for the start.
pub(crate) fn next_due(
    connection: &rusqlite::Connection,
) -> rusqlite::Result<Option<(String, Millis)>> {
    let sql = "SELECT 1 FROM local_delivery LIMIT 1";
    let waits = store::find(connection, sql, [], |_| Ok(()))?;
    Ok(waits.map(|()| (ROUTE.to_owned(), Millis::MIN)))
}
