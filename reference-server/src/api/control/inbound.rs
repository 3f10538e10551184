//! `POST /_sandbox/inbound`: receives a message as if it had arrived over SMTP.

use std::sync::Arc;

use crate::api::framework::ControlCall;
use crate::api::framework::route::Routes;
use crate::control::inbound::{
    self as control, InboundMessage, InboundQuery, Received, ReceivedMessage,
};
use crate::delivery::authentication::{self, Peer};
use crate::delivery::inbound::{self, IncomingMessage};
use crate::mail::mime::{Incoming, Outgoing};
use crate::model::address::{Address, Mailbox, reject_line_breaks};
use crate::model::error::{ApiError, Problems};
use crate::model::id::{self, Prefix};
use crate::runtime::heavy;
use crate::store::domains;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox inbound");
    r.control(control::RECEIVE, receive);
}

/// Maximum number of recipients: each gets a message in the same transaction.
const MAX_RECIPIENTS: usize = 1_000;

pub(crate) async fn receive(
    call: ControlCall<InboundMessage, InboundQuery>,
) -> Result<Received, ApiError> {
    let (app, query) = (Arc::clone(&call.data.app), call.query);
    let (ip, helo) = (query.ip, query.helo.clone());
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    if helo.as_ref().is_some_and(|helo| helo.is_empty() || !helo.chars().all(is_allowed)) {
        return Err(ApiError::field("helo", "must be a host name"));
    }
    let (source, new, now) = (call.source, call.body, app.clock.now());
    let read = move || match source {
        Some(bytes) => parse(&query, inbound::with_crlf(&bytes)),
        None => new.compose(now),
    };
    let Arrived { recipients, source, sender } = heavy::run(read).await?;
    ApiError::at_most("to", recipients.len(), MAX_RECIPIENTS, "recipients")?;
    let domain = recipients.first().map(|first| first.domain().as_str().to_owned());
    let (local, from) =
        sender.as_ref().map_or(("", ""), |sender| (sender.local(), sender.domain().as_str()));
    let helo = helo.as_deref().unwrap_or(from);
    let peer = ip.map(|ip| Peer { ip, helo, local, domain: from });
    let source = Arc::new(source);
    let results = authentication::check(&app.resolver, peer, &source, now).await?;
    let source = Arc::unwrap_or_clone(source);
    let message = IncomingMessage {
        organization: Some(call.data.organization),
        catcher: None,
        recipients,
        results: Some(results),
        source,
    };
    let received = inbound::receive(&app.store, message).await?;
    if received.is_empty() {
        let elsewhere = app
            .store
            .read(move |reader| domains::elsewhere(reader, &domain.unwrap_or_default()))
            .await?;
        let message =
            format!("contains no recipient in a verified domain of this organization{elsewhere}");
        return Err(ApiError::field("to", message));
    }
    let messages = received.into_iter();
    let messages = messages.map(|one| ReceivedMessage { id: one.id, recipient: one.recipient });
    Ok(Received { messages: messages.collect() })
}

/// A message that arrives.
struct Arrived {
    recipients: Vec<Address>,
    source: Vec<u8>,
    /// The envelope sender.
    sender: Option<Address>,
}

/// Reads a complete message. Its envelope is that of the query, or of the header.
fn parse(query: &InboundQuery, source: Vec<u8>) -> Result<Arrived, ApiError> {
    let message = Incoming::parse(&source);
    // A `+` in a query that is not percent-encoded decodes to a space.
    let texts = match (&query.to, &message) {
        (Some(text), _) => text.split(',').map(|one| one.trim().replace(' ', "+")).collect(),
        (None, Some(message)) => [message.to.clone(), message.cc.clone()].concat(),
        (None, None) => {
            return Err(ApiError::field("", "is not an email message: it has no header"));
        }
    };
    let recipients = texts.iter().map(|text| Mailbox::parse(text).map(|mailbox| mailbox.address));
    let recipients = recipients.collect::<Result<_, _>>();
    let sender = match &query.from {
        Some(text) => Some(text.replace(' ', "+")),
        None => message.map(|message| message.from),
    };
    let sender = sender.and_then(|text| Mailbox::parse(&text).ok()).map(|from| from.address);
    let recipients = recipients.map_err(|error| ApiError::field("to", error.to_string()))?;
    Ok(Arrived { recipients, source, sender })
}

impl InboundMessage {
    /// Builds the message.
    fn compose(self, now: i64) -> Result<Arrived, ApiError> {
        let mut problems = Problems::default();
        let mut mailbox = |field: &str, text: &str| match Mailbox::parse(text) {
            Ok(mailbox) => Some(mailbox),
            Err(error) => {
                problems.add(field, error.to_string());
                None
            }
        };
        let from = mailbox("from", self.from.as_deref().unwrap_or_default());
        let texts = self.to.unwrap_or_default().0;
        let to: Vec<Mailbox> = texts.iter().filter_map(|text| mailbox("to", text)).collect();
        if texts.is_empty() {
            problems.add("to", "is required: at least one recipient");
        }
        let subject = self.subject.unwrap_or_default();
        if let Err(error) = reject_line_breaks(&subject) {
            problems.add("subject", error.to_string());
        }
        problems.check()?;
        let Some(from) = from else { return Err(ApiError::field("from", "is required")) };
        let message_id = format!("{}@{}", id::new(Prefix::Delivery), from.address.domain());
        let message = Outgoing {
            from: &from,
            to: &to,
            cc: &[],
            reply_to: &[],
            subject: &subject,
            html: self.html.as_deref(),
            text: self.text.as_deref(),
            headers: &[],
            attachments: &[],
            message_id: &message_id,
            date: now / 1000,
        };
        let source = message.source();
        let recipients = to.into_iter().map(|mailbox| mailbox.address).collect();
        Ok(Arrived { recipients, source, sender: Some(from.address) })
    }
}
