//! Emails from elsewhere.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::{ACCEPTED, Client, Endpoint, POST, Request};
use crate::model::one_or_many::OneOrMany;
use crate::model::schema;

pub(crate) const RECEIVE: Endpoint<InboundMessage, Received, InboundQuery> = Endpoint::new(
    POST,
    "sandboxInboundReceive",
    "/_sandbox/inbound",
    "Receive a message as if it had arrived over SMTP",
)
.also_accepts("message/rfc822")
.responds(ACCEPTED);

#[derive(Serialize, Deserialize, JsonSchema)]
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
    /// The organization, by ID or name. Default: that of the client; set it only on a client of none.
    pub organization: Option<String>,
    /// The sender.
    #[schemars(with = "schema::Mailbox")]
    pub from: Option<String>,
    /// The recipients, in a verified domain.
    #[schemars(required)]
    pub to: Option<OneOrMany>,
    /// The subject.
    #[schemars(regex(pattern = r"^[^\r\n]*$"))]
    pub subject: Option<String>,
    /// The text part.
    pub text: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
}

impl InboundMessage {
    /// An email without subject and content. The recipient is in a verified domain.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        let from = Some(from.into());
        let to = Some(OneOrMany(vec![to.into()]));
        Self {
            from,
            to,
            ..Self::default()
        }
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
    /// Receives an email as if it had arrived over SMTP, and notifies the webhooks.
    pub fn receive(&self, message: &InboundMessage) -> Request<Received> {
        self.send(&RECEIVE, &[], message)
    }

    /// Like [`receive`](Self::receive), for an RFC 5322 message.
    pub fn receive_raw(&self, source: impl Into<Bytes>) -> Request<Received> {
        self.call(&RECEIVE, &[])
            .body(source.into(), "message/rfc822")
    }
}
