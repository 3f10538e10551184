//! Incoming mail: stored for each recipient in a verified domain, with one source for all,
//! and announced to the owner's webhooks as `email.received`
//! (`docs/undocumented/services.md#delivery-payload`,
//! `docs/undocumented/services.md#mailboxes`).

use crate::deliveries::delivery_rules::{
    About, Data, ReceivedEmail, SharedFields, emit, fields, json_size,
};
use crate::domains::domain_rows;
use crate::inbound::inbound_wire::ReceivedMessage;
use crate::mail::mime::Incoming;
use crate::mail::preview::{preview, words};
use crate::messages::message_rows;
use crate::messages::message_wire::{
    Authentication, Direction, DkimResult, MessageSummary, SpfVerdict,
};
use crate::model::{Address, Event, Result, id, time};
use crate::runtime::{heavy, memory};
use crate::store::bodies::{self, NewBody};
use crate::store::{Store, Tx};

/// An incoming message that has not been stored yet.
pub(crate) struct IncomingMessage {
    /// Set if only this organization may receive the message.
    pub(crate) organization: Option<i64>,
    /// Gets a message, without an event, for each recipient whose domain is not verified.
    pub(crate) catcher: Option<i64>,
    pub(crate) recipients: Vec<Address>,
    /// `None` if it was not checked.
    pub(crate) results: Option<Authentication>,
    /// Message source with CRLF line endings.
    pub(crate) source: Vec<u8>,
}

/// Stores a message for each of its recipients; durable when this returns. Skips
/// recipients whose domain is not verified here, unless an organization catches their mail.
pub(crate) async fn receive(
    store: &Store,
    incoming: IncomingMessage,
) -> Result<Vec<ReceivedMessage>> {
    let IncomingMessage {
        organization,
        catcher,
        recipients,
        results,
        source,
    } = incoming;
    let _reserved = memory::MESSAGES.reserve(source.len()).await;
    let message = parse(source, results).await?;
    let stored = store.write(move |tx| {
        let mut received = Vec::new();
        for recipient in &recipients {
            let domain = recipient.domain().as_str();
            let owners = domain_rows::owners(tx.reader(), domain, organization)?;
            let mut add = |id| {
                received.push(ReceivedMessage {
                    id,
                    recipient: recipient.as_str().to_owned(),
                });
            };
            if let Some(catcher) = catcher.filter(|_| owners.is_empty()) {
                add(insert(tx, catcher, None, recipient, &message)?);
            }
            for (domain, organization) in owners {
                add(store_message(
                    tx,
                    organization,
                    &domain,
                    recipient,
                    &message,
                )?);
            }
        }
        Ok(received)
    });
    stored.await
}

/// A parsed message with its authentication results.
pub(crate) struct AuthenticatedMessage {
    /// Empty if the source cannot be parsed as a message, like `subject`.
    from: String,
    subject: String,
    preview: String,
    text: String,
    attachments: usize,
    /// The fields of [`ReceivedEmail`] that are the same for all recipients: those of its `message`.
    content: NewBody,
    /// `None` if it was not checked.
    pub(crate) results: Option<Authentication>,
    source: NewBody,
}

/// How much of a header is stored apart from the source, in characters.
const MAX_HEADER: usize = 1_000;

/// How many characters of its words a search of received messages reads.
const MAX_WORDS: usize = 4096;

/// How large the JSON of a message is, in bytes, if its event has its text, HTML and files. Storing and
/// sending it takes several times as much.
const MAX_ANNOUNCED: usize = 80 << 20;

/// Parses a message.
pub(crate) async fn parse(
    source: Vec<u8>,
    results: Option<Authentication>,
) -> Result<AuthenticatedMessage> {
    let read = move || {
        let message = Incoming::parse(&source);
        let content = if json_size(&message)? > MAX_ANNOUNCED {
            fields(&message.without_content())?
        } else {
            fields(&message)?
        };
        let content = NewBody::new(content);
        let Incoming {
            mut from,
            to,
            mut subject,
            text,
            html,
            attachments,
            ..
        } = message;
        for header in [&mut from, &mut subject] {
            if let Some((end, _)) = header.char_indices().nth(MAX_HEADER) {
                header.truncate(end);
            }
        }
        let html = html.as_deref();
        let text = text.as_deref();
        Ok(AuthenticatedMessage {
            from,
            subject,
            preview: preview(html, text),
            text: format!("{} {}", to.join(" "), words(html, text, MAX_WORDS)),
            attachments: attachments.len(),
            content,
            results,
            source: NewBody::new(source),
        })
    };
    heavy::run(read).await
}

/// Stores a message in a mailbox of the domain with this id, and emits
/// `email.received`.
pub(crate) fn store_message(
    tx: &mut Tx<'_>,
    organization: i64,
    domain: &str,
    recipient: &Address,
    message: &AuthenticatedMessage,
) -> Result<String> {
    let id = insert(tx, organization, Some(domain), recipient, message)?;
    notify_received(tx, organization, &id, recipient, message)?;
    Ok(id)
}

fn insert(
    tx: &mut Tx<'_>,
    organization: i64,
    domain: Option<&str>,
    recipient: &Address,
    message: &AuthenticatedMessage,
) -> Result<String> {
    let id = id::new(id::MESSAGE);
    let summary = MessageSummary {
        id: id.clone(),
        direction: Direction::Incoming,
        email_id: None,
        from: message.from.clone(),
        recipient: recipient.as_str().to_owned(),
        subject: message.subject.clone(),
        preview: message.preview.clone(),
        attachments: message.attachments,
        created_at: tx.now.into(),
    };
    let received = message_rows::Received {
        text: Some(&message.text),
        authentication: message.results.as_ref(),
        source: Some(bodies::put(tx, &message.source)?),
    };
    message_rows::insert(tx, organization, summary, domain, received)?;
    Ok(id)
}

/// Emits `email.received` to an organization's webhooks.
pub(crate) fn notify_received(
    tx: &mut Tx<'_>,
    organization: i64,
    id: &str,
    recipient: &Address,
    message: &AuthenticatedMessage,
) -> Result<()> {
    let now = tx.now;
    let unchecked = Authentication {
        spf: SpfVerdict::None,
        dkim: DkimResult::default(),
    };
    let Authentication { spf, dkim } = message.results.as_ref().unwrap_or(&unchecked);
    let about = About {
        email: None,
        recipient: Some(recipient.as_str()),
        subject: Some(&message.subject),
    };
    let emitted = emit(tx, organization, Event::EmailReceived, about, |tx| {
        let data = ReceivedEmail {
            message: SharedFields::default(),
            spf: *spf,
            dkim,
            recipient: recipient.as_str(),
            message_id: id,
            timestamp: time::rfc3339(now),
        };
        Ok(Data {
            shared: Some(bodies::put(tx, &message.content)?),
            ..Data::of(&data)?
        })
    });
    emitted.map(drop)
}

/// Converts line endings to CRLF.
pub(crate) fn with_crlf(source: &[u8]) -> Vec<u8> {
    let lines = source.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.collect::<Vec<_>>().join(&b"\r\n"[..])
}
