//! Emails from elsewhere.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::{Client, Request};
use super::endpoint::{ACCEPTED, Endpoint, POST};
use crate::model::one_or_many::OneOrMany;
use crate::model::schema;

pub(crate) const RECEIVE: Endpoint<InboundMessage, Received, InboundQuery> =
    Endpoint::new(POST, "/_sandbox/inbound", "Receive a message as if it had arrived over SMTP")
        .also_accepts("message/rfc822")
        .responds(ACCEPTED);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboundQuery {
    /// For `message/rfc822`: the recipients, separated by commas. Default: those in the header of
    /// the message.
    pub(crate) to: Option<String>,
}

/// An email that arrives.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InboundMessage {
    pub(crate) organization: Option<String>,
    #[schemars(with = "schema::Mailbox")]
    pub(crate) from: Option<String>,
    #[schemars(required)]
    pub(crate) to: Option<OneOrMany>,
    #[schemars(regex(pattern = r"^[^\r\n]*$"))]
    pub(crate) subject: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
}

impl InboundMessage {
    /// An email without subject and content. The recipient is in a verified domain.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, to) = (Some(from.into()), Some(OneOrMany(vec![to.into()])));
        Self { from, to, ..Self::default() }
    }

    /// Adds a recipient.
    #[must_use]
    pub fn to(mut self, to: impl Into<String>) -> Self {
        self.to.get_or_insert_default().0.push(to.into());
        self
    }

    /// Sets the subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the text part.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the HTML part.
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }
}

/// The messages of an email that arrived, one for each local recipient.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InboundMessages")]
#[non_exhaustive]
pub struct Received {
    /// The messages.
    pub messages: Vec<ReceivedMessage>,
}

/// A message that arrived.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InboundMessageReceived")]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// The ID, `msg_…`.
    pub id: String,
    /// The address of the recipient.
    pub recipient: String,
}

impl Client {
    /// Emails from elsewhere.
    pub fn inbound(&self) -> Inbound<'_> {
        Inbound(self)
    }
}

/// Requests for emails from elsewhere; see [`Client::inbound`].
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a>(&'a Client);

impl Inbound<'_> {
    /// Receives an email as if it had arrived over SMTP, and notifies the webhooks.
    pub fn receive(&self, message: &InboundMessage) -> Request<Received> {
        self.0.send(&RECEIVE, &[], message)
    }

    /// As [`receive`](Self::receive), for an RFC 5322 message.
    pub fn receive_raw(&self, source: impl Into<Bytes>) -> Request<Received> {
        self.0.call(&RECEIVE, &[]).body(source.into(), "message/rfc822")
    }
}
