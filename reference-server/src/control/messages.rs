//! The messages in the local mailbox.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::client::{Client, Request};
use super::endpoint::{DELETE, Endpoint, GET, Page};
use super::query::{AddressParameter, Id, Limit, Position, Timeout};
use crate::model::time::duration_text;
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Page<MessageSummary>, MessageQuery> =
    Endpoint::new(GET, "/_sandbox/messages", "List delivered and received messages");
pub(crate) const WAIT: Endpoint<(), Message, WaitQuery> =
    Endpoint::new(GET, "/_sandbox/messages/wait", "Wait for a message");
pub(crate) const MESSAGE: Endpoint<(), Message> =
    Endpoint::new(GET, "/_sandbox/messages/{id}", "Get a message");
pub(crate) const DELETE_ALL: Endpoint<(), (), DeleteQuery> =
    Endpoint::new(DELETE, "/_sandbox/messages", "Delete the messages that match, or all of them");
pub(crate) const DELETE_ONE: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/messages/{id}", "Delete a message");
pub(crate) const RAW: Endpoint<(), Bytes> = Endpoint::content(
    "/_sandbox/messages/{id}/raw",
    "Get the source of a message",
    "message/rfc822",
);
pub(crate) const HTML: Endpoint<(), Bytes> =
    Endpoint::content("/_sandbox/messages/{id}/html", "Get the HTML of a message", "text/html");
pub(crate) const LINKS: Endpoint<(), MessageLinks> = Endpoint::new(
    GET,
    "/_sandbox/messages/{id}/links",
    "Get the links and the one-time codes of a message",
);
pub(crate) const ATTACHMENT: Endpoint<(), Bytes> = Endpoint::content(
    "/_sandbox/messages/{id}/attachments/{n}",
    "Get an attachment of a message; the first is 1",
    "*/*",
);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageQuery {
    /// The address of the recipient.
    pub(crate) to: Option<AddressParameter>,
    /// The address of the sender.
    pub(crate) from: Option<AddressParameter>,
    /// A part of the subject, case-insensitive.
    pub(crate) subject: Option<String>,
    /// Words, each of which is part of an address, a name, the subject, the text or the ID.
    pub(crate) search: Option<String>,
    /// Only messages after this time, or after the message with this ID.
    pub(crate) after: Option<Position>,
    /// Maximum number of results.
    #[serde(default)]
    pub(crate) limit: Limit,
    /// The `next` value of the previous page.
    pub(crate) cursor: Option<Id>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// The address of the recipient.
    pub(crate) to: Option<AddressParameter>,
    /// The address of the sender.
    pub(crate) from: Option<AddressParameter>,
    /// A part of the subject, case-insensitive.
    pub(crate) subject: Option<String>,
    /// Words, each of which is part of an address, a name, the subject, the text or the ID.
    pub(crate) search: Option<String>,
    /// Only messages after this time, or after the message with this ID.
    pub(crate) after: Option<Position>,
    /// How long to wait, in real time, at most `10m`. Default: `30s`. Then the status is 408.
    pub(crate) timeout: Option<Timeout<600>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteQuery {
    /// The address of the recipient.
    pub(crate) to: Option<AddressParameter>,
    /// The address of the sender.
    pub(crate) from: Option<AddressParameter>,
    /// A part of the subject, case-insensitive.
    pub(crate) subject: Option<String>,
    /// Words, each of which is part of an address, a name, the subject, the text or the ID.
    pub(crate) search: Option<String>,
    /// Only messages after this time, or after the message with this ID.
    pub(crate) after: Option<Position>,
}

/// A message with its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// The ID, `msg_…`.
    pub id: String,
    /// Where it comes from.
    pub direction: Direction,
    /// The ID of its email; null for a received message.
    pub email_id: Option<String>,
    /// The sender.
    pub from: String,
    /// The tags of its email; null for a received message.
    pub tags: Option<Map<String, Value>>,
    /// The address that it was delivered to.
    pub recipient: String,
    /// When it arrived.
    pub created_at: Timestamp,
    /// The results of SPF and DKIM, if the message was checked when it arrived.
    pub authentication: Option<Authentication>,
    /// Size of the source, in bytes.
    pub size: usize,
    /// The recipients in its header.
    pub to: Vec<String>,
    /// The recipients of copies in its header.
    pub cc: Vec<String>,
    /// The subject; empty if there is none.
    pub subject: String,
    /// The text part.
    pub text: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The header, by name.
    pub headers: Map<String, Value>,
    /// The attachments.
    pub attachments: Vec<MessageAttachment>,
    /// The links of the HTML part in order, then those that only the text part contains.
    pub links: Vec<Link>,
    /// One-time codes, those with six digits first.
    pub codes: Vec<String>,
}

/// An attachment of a message, without its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageAttachment {
    /// The name of the file.
    pub filename: Option<String>,
    /// The content type.
    pub content_type: String,
    /// The `Content-ID`, of an image in the HTML part.
    pub content_id: Option<String>,
    /// In bytes.
    pub size: usize,
}

/// The links and the one-time codes of a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MessageLinks {
    /// The links of the HTML part in order, then those that only the text part contains.
    pub links: Vec<Link>,
    /// One-time codes, those with six digits first.
    pub codes: Vec<String>,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MessageDirection", inline)]
#[non_exhaustive]
pub enum Direction {
    /// From an email of this server.
    Outgoing,
    /// From elsewhere.
    Incoming,
}

/// A message in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The ID, `msg_…`.
    pub id: String,
    /// Where it comes from.
    pub direction: Direction,
    /// The ID of its email; null for a received message.
    pub email_id: Option<String>,
    /// The sender.
    pub from: String,
    /// The address that it was delivered to.
    pub recipient: String,
    /// The subject; empty if there is none.
    pub subject: String,
    /// The first words of its text.
    pub preview: String,
    /// How many attachments it has.
    pub attachments: usize,
    /// When it arrived.
    pub created_at: Timestamp,
}

/// What the checks of an arriving message found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageAuthentication")]
#[non_exhaustive]
pub struct Authentication {
    /// Whether the sending host may send for the domain of the envelope sender.
    pub spf: SpfVerdict,
    /// Whether the signature of a domain is valid.
    pub dkim: DkimVerdict,
}

/// A link of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Link {
    /// Where it leads.
    pub url: String,
    /// The address in the message, which leads there through the server and records a click; null
    /// if clicks are not tracked.
    pub tracked_url: Option<String>,
    /// The visible text of the link in the HTML part; null if it has none.
    pub text: Option<String>,
}

/// The result of an SPF evaluation (RFC 7208 §2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpfVerdict {
    /// The domain of the sender has no policy, or the address of the sending host is not known.
    None,
    /// The policy says nothing about the sending host.
    Neutral,
    /// The sending host may send for the domain.
    Pass,
    /// The sending host may not send for the domain.
    Fail,
    /// The sending host probably may not send for the domain.
    SoftFail,
    /// A lookup failed temporarily.
    TempError,
    /// The policy is invalid.
    PermError,
}

/// The result of a DKIM verification (RFC 8601 §2.7.1), from worst to best.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DkimVerdict {
    /// The message has no signature.
    None,
    /// The signature or its key is malformed or missing.
    PermError,
    /// The key lookup failed temporarily.
    TempError,
    /// The signature does not match the message.
    Fail,
    /// A signature matches the message.
    Pass,
}

names!(SpfVerdict, DkimVerdict);

impl Client {
    /// The messages that the mail engine delivered, and those that arrived.
    pub fn messages(&self) -> Messages<'_> {
        Messages(self)
    }
}

/// Requests for messages; see [`Client::messages`].
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a Client);

/// How long a wait for a message takes by default.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

impl Messages<'_> {
    /// Waits for a message to this address, and returns the newest one that is there, or the
    /// first one that arrives.
    ///
    /// It waits 30 seconds of real time, unless [`timeout`](Request::timeout) sets another
    /// limit. The error then says what arrived instead.
    pub fn wait_for(&self, to: impl AsRef<str>) -> Request<Message> {
        self.wait().to(to)
    }

    /// Waits for a message of any recipient; see [`wait_for`](Self::wait_for).
    pub fn wait(&self) -> Request<Message> {
        self.0.call(&WAIT, &[]).waits(DEFAULT_TIMEOUT)
    }

    /// Lists the messages, newest first.
    pub fn list(&self) -> Request<Page<MessageSummary>> {
        self.0.call(&LIST, &[])
    }

    /// Returns a message with its content.
    pub fn get(&self, id: &str) -> Request<Message> {
        self.0.call(&MESSAGE, &[id])
    }

    /// Deletes a message.
    pub fn delete(&self, id: &str) -> Request<()> {
        self.0.call(&DELETE_ONE, &[id])
    }

    /// Deletes the messages that the request selects, or all of the organization.
    pub fn delete_all(&self) -> Request<MessagesDeleted> {
        self.0.call(&DELETE_ALL, &[]).decoded(|_| Ok(MessagesDeleted))
    }

    /// Returns the RFC 5322 source of a message.
    pub fn raw(&self, id: &str) -> Request<Bytes> {
        self.0.call(&RAW, &[id])
    }

    /// Returns the HTML part of a message.
    pub fn html(&self, id: &str) -> Request<String> {
        self.0.call(&HTML, &[id]).decoded(|response| Ok(response.text().into_owned()))
    }

    /// Returns the bytes of an attachment; the first of a message is 1.
    pub fn attachment(&self, id: &str, number: usize) -> Request<Bytes> {
        self.0.call(&ATTACHMENT, &[id, &number.to_string()])
    }

    /// Returns the links and the one-time codes of a message.
    pub fn links(&self, id: &str) -> Request<MessageLinks> {
        self.0.call(&LINKS, &[id])
    }
}

/// The messages that a request selects are deleted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MessagesDeleted;

impl Request<Message> {
    /// Sets how long to wait, in real time, at most ten minutes. Default: 30 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.query("timeout", duration_text(timeout)).waits(timeout)
    }
}

/// The same selection for lists, waits and deletions.
macro_rules! selection {
    ($($type:ty)*) => { $(
        impl Request<$type> {
            /// Selects messages to this address.
            pub fn to(self, address: impl AsRef<str>) -> Self {
                self.query("to", address)
            }

            /// Selects messages from this address.
            pub fn from(self, address: impl AsRef<str>) -> Self {
                self.query("from", address)
            }

            /// Selects messages whose subject contains this text, in any case.
            pub fn subject(self, part: impl AsRef<str>) -> Self {
                self.query("subject", part)
            }

            /// Selects messages that contain each of these words, in an address, a name, the
            /// subject, the text or the ID, among the newest 5 000.
            pub fn search(self, words: impl AsRef<str>) -> Self {
                self.query("search", words)
            }

            /// Selects messages after this time, or after the message with this ID.
            pub fn after(self, time_or_id: impl fmt::Display) -> Self {
                self.query("after", time_or_id.to_string())
            }
        }
    )* };
}

selection!(Page<MessageSummary> Message MessagesDeleted);
