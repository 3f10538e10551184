//! Mail that comes in: stored for each recipient in a verified domain, told to
//! its webhooks as `email.received` (`open-points.md` E20, E26).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::address::Address;
use crate::app::Shared;
use crate::dkim::DkimVerdict;
use crate::dns::SpfVerdict;
use crate::engine::post;
use crate::error::ApiError;
use crate::id::{self, Prefix};
use crate::mime::Incoming;
use crate::store::Tx;
use crate::time;
use crate::webhooks::Event;

/// A message at the door.
pub(crate) struct Arrival {
    /// Where it came in for one organization only.
    pub(crate) organization: Option<i64>,
    pub(crate) recipients: Vec<Address>,
    pub(crate) spf: SpfVerdict,
    pub(crate) dkim: DkimVerdict,
    /// With CRLF line ends.
    pub(crate) source: Vec<u8>,
}

/// A message that was stored for one recipient.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) id: String,
    pub(crate) recipient: String,
}

/// Takes a message in; durable when this returns. Recipients that are in no
/// verified domain are passed over.
pub(crate) async fn receive(app: &Shared, arrival: Arrival) -> Result<Vec<Received>, ApiError> {
    let Arrival { organization, recipients, spf, dkim, source } = arrival;
    let parsing = tokio::task::spawn_blocking(move || {
        let message = Incoming::parse(&source);
        let data = data(message.as_ref(), spf, dkim);
        (source, data)
    });
    let (source, data) = parsing.await.map_err(ApiError::internal)?;
    let webhooks = std::sync::Arc::clone(&app.webhooks);
    let stored = app.store.write(move |tx| {
        let mut received = Vec::new();
        for recipient in &recipients {
            let domain = recipient.domain().as_str();
            for (domain, organization) in takers(tx, domain, organization)? {
                let id = id::new(Prefix::Message);
                tx.execute(
                    "INSERT INTO message (organization, id, recipient, domain, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    (organization, &id, recipient.as_str(), &domain, tx.now),
                )?;
                let text = |name: &str| data[name].as_str().unwrap_or_default();
                tx.execute(
                    "INSERT INTO message_source (message, sender, subject, source)
                     VALUES (?1, ?2, ?3, ?4)",
                    (&id, text("from"), text("subject"), &source),
                )?;
                tx.message_arrived();
                let now = tx.now;
                post::emit(tx, &webhooks, organization, Event::EmailReceived, || {
                    let mut data = data.clone();
                    data.insert("recipient".to_owned(), recipient.as_str().into());
                    data.insert("messageId".to_owned(), id.as_str().into());
                    data.insert("timestamp".to_owned(), time::rfc3339(now).into());
                    Ok(Value::Object(data))
                })?;
                received.push(Received { id, recipient: recipient.as_str().to_owned() });
            }
        }
        Ok(received)
    });
    stored.await
}

/// Whether anybody takes mail for the domain.
pub(crate) async fn is_taken(app: &Shared, domain: &str) -> Result<bool, ApiError> {
    let domain = domain.to_owned();
    let sql = format!("SELECT 1 FROM domain WHERE name = ?1 AND {VERIFIED} LIMIT 1");
    app.store
        .read(move |connection| {
            Ok(crate::store::find(connection, &sql, [&domain], |_| Ok(()))?.is_some())
        })
        .await
}

const VERIFIED: &str = "mx_verified AND spf_verified AND dkim_verified AND dmarc_verified";

/// The verified domains of this name: two organizations may have the same.
fn takers(
    tx: &Tx<'_>,
    domain: &str,
    organization: Option<i64>,
) -> Result<Vec<(String, i64)>, ApiError> {
    let sql = format!(
        "SELECT id, organization FROM domain
         WHERE name = ?1 AND {VERIFIED} AND (?2 IS NULL OR organization = ?2) ORDER BY id"
    );
    let mut statement = tx.statement(&sql)?;
    let rows = statement.query_map((domain, organization), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The data of `email.received` that is the same for every recipient.
fn data(message: Option<&Incoming>, spf: SpfVerdict, dkim: DkimVerdict) -> Map<String, Value> {
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| data.insert(name.to_owned(), value);
    if let Some(message) = message {
        put("from", message.from.as_deref().unwrap_or_default().into());
        put("to", message.to.clone().into());
        put("subject", message.subject.as_deref().unwrap_or_default().into());
        put("text", message.text.as_deref().into());
        put("html", message.html.as_deref().into());
        put("headers", message.headers.clone().into());
        let attachments = message.attachments.iter().map(|attachment| {
            json!({
                "filename": attachment.filename,
                "contentType": attachment.content_type,
                "contentId": attachment.content_id,
                "size": attachment.content.len(),
                "content": BASE64.encode(&attachment.content),
            })
        });
        put("attachments", attachments.collect());
    }
    put("spf", spf.as_str().into());
    put("dkim", dkim.as_str().into());
    data
}

/// A message with the line ends that mail has, whatever it was written with.
pub(crate) fn with_crlf(source: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(source.len() + source.len() / 40);
    for line in source.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                lines.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                lines.extend_from_slice(b"\r\n");
            }
            None => lines.extend_from_slice(line),
        }
    }
    lines
}
