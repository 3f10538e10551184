//! `POST /_sandbox/inbound`: receives a message as if it had arrived over SMTP.

use std::sync::Arc;

use serde_json::Map;

use crate::domains::domain_rows::Domain;
use crate::http::ControlCall;
use crate::inbound::inbound_rules::{self, IncomingMessage};
use crate::inbound::inbound_wire::{InboundMessage, InboundQuery, Received};
use crate::mail::authentication;
use crate::mail::mime::{Incoming, Outgoing};
use crate::model::address::reject_line_breaks;
use crate::model::{Address, Failure, Mailbox, Problems, Result, id};
use crate::organizations::organization_rows::has_it;
use crate::runtime::heavy;
use crate::store::Row as _;

/// Maximum number of recipients: each gets a message in the same transaction.
const MAX_RECIPIENTS: usize = 1_000;

pub(crate) async fn receive(call: ControlCall<InboundMessage, InboundQuery>) -> Result<Received> {
    let app = Arc::clone(&call.input.app);
    let query = call.query;
    let (recipients, source) = if let Some(bytes) = call.source {
        let read = move || {
            let source = inbound_rules::with_crlf(&bytes);
            Ok((parse_recipients(&query, &source)?, source))
        };
        heavy::run(read).await?
    } else {
        let new = call.body;
        let now = app.clock.now();
        heavy::run(move || new.compose(now)).await?
    };
    Failure::at_most("to", recipients.len(), MAX_RECIPIENTS, "recipients")?;
    let domain = recipients
        .first()
        .map(|first| first.domain().as_str().to_owned());
    let store = &app.store;
    let resolver = &app.resolver;
    let now = app.clock.now();
    let source = Arc::new(source);
    let results = authentication::check(resolver, None, &source, now).await?;
    let source = authentication::without_own_results(Arc::unwrap_or_clone(source));
    let message = IncomingMessage {
        organization: Some(call.input.organization),
        catcher: None,
        recipients,
        results: Some(results),
        source,
    };
    let messages = inbound_rules::receive(store, message).await?;
    if messages.is_empty() {
        let elsewhere = store
            .read(move |reader| has_it(reader, Domain::TABLE, &domain.unwrap_or_default()))
            .await?;
        let message =
            format!("contains no recipient in a verified domain of this organization{elsewhere}");
        return Err(Failure::field("to", message));
    }

    Ok(Received { messages })
}

/// The recipients of a complete message: the envelope recipients in the query parameter
/// `to`, or those in the header.
fn parse_recipients(query: &InboundQuery, source: &[u8]) -> Result<Vec<Address>> {
    let texts = match &query.to {
        // A `+` in a query that is not percent-encoded decodes to a space.
        Some(text) => text
            .split(',')
            .map(|one| one.trim().replace(' ', "+"))
            .collect(),
        None => {
            let message = Incoming::parse(source);
            if message.headers.is_empty() {
                return Err(Failure::field(
                    "",
                    "is not an email message: it has no header",
                ));
            }
            let mut all = [message.to, message.cc].concat();
            // A name is no recipient.
            all.retain(|mailbox| mailbox.contains('@'));
            all
        }
    };
    let parsed = texts
        .iter()
        .map(|text| Mailbox::parse(text).map(|mailbox| mailbox.address));
    parsed
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::field("to", error.to_string()))
}

impl InboundMessage {
    /// The recipients, and the source.
    fn compose(self, now: i64) -> Result<(Vec<Address>, Vec<u8>)> {
        let mut problems = Problems::default();
        let from = Mailbox::parse(self.from.as_deref().unwrap_or_default());
        let from = problems.ok("from", from);
        let to = self.to.unwrap_or_default().0;
        if to.is_empty() {
            problems.add("to", "is required: at least one recipient");
        }
        let to = to
            .iter()
            .filter_map(|text| problems.ok("to", Mailbox::parse(text)));
        let to: Vec<_> = to.collect();
        let subject = self.subject.unwrap_or_default();
        problems.ok("subject", reject_line_breaks(&subject));
        let Some(from) = from else {
            return Err(problems.into_error());
        };

        problems.check()?;
        let message_id = format!("{}@{}", id::new(id::DELIVERY), from.address.domain());
        let message = Outgoing {
            from: &from,
            to: &to,
            cc: &[],
            reply_to: &[],
            subject: &subject,
            html: self.html.as_deref(),
            text: self.text.as_deref(),
            headers: &Map::new(),
            attachments: &[],
            message_id: &message_id,
            date: now / 1000,
        };
        let source = message.source();
        Ok((
            to.into_iter().map(|mailbox| mailbox.address).collect(),
            source,
        ))
    }
}
