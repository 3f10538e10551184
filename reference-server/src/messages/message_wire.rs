//! Messages in local mailboxes, in the control interface: the endpoints of `/_sandbox/messages`,
//! their types, and the methods of `Client`. A message is one email for one recipient: from an
//! email of this server or received over SMTP. Lists have `MessageSummary`, without content;
//! `Message` has the parsed content, with links and one-time codes. `MessageFilter` selects for
//! list, count, wait and delete alike. `message_api.rs` handles the requests.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::client::{Client, Request, requests};
use crate::control::endpoint::{Cursor, DELETE, Endpoint, GET, POST, Page};
use crate::model::schema;
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Page<MessageSummary>, MessageFilter> = Endpoint::list(
    "sandboxMessagesList",
    "/_sandbox/messages",
    "List delivered and received messages",
    Cursor::Id,
);
pub(crate) const COUNT: Endpoint<(), MessageCount, MessageFilter> = Endpoint::new(
    GET,
    "sandboxMessagesCount",
    "/_sandbox/messages/count",
    "Count the messages that match",
);
pub(crate) const WAIT: Endpoint<(), Message, MessageFilter> = Endpoint::new(
    GET,
    "sandboxMessagesWait",
    "/_sandbox/messages/wait",
    "Wait for a message",
)
.waits(30, 600);

requests! {
    /// Returns a message with its content.
    MESSAGE: fn message(id) -> Message = Endpoint::new(
        GET,
        "sandboxMessagesGet",
        "/_sandbox/messages/{id}",
        "Get a message",
    );

    /// Deletes a message.
    DELETE_ONE: fn delete_message(id) -> () = Endpoint::new(
        DELETE,
        "sandboxMessagesDelete",
        "/_sandbox/messages/{id}",
        "Delete a message",
    );

    /// Returns the RFC 5322 source of a message.
    RAW: fn message_source(id) -> Bytes = Endpoint::content(
        "sandboxMessagesGetRaw",
        "/_sandbox/messages/{id}/raw",
        "Get the source of a message",
        "message/rfc822",
    );

    /// Returns the HTML part of a message.
    HTML: fn message_html(id) -> Bytes = Endpoint::content(
        "sandboxMessagesGetHtml",
        "/_sandbox/messages/{id}/html",
        "Get the HTML of a message",
        "text/html",
    );

    /// Returns the links and the one-time codes of a message.
    LINKS: fn message_links(id) -> MessageLinks = Endpoint::new(
        GET,
        "sandboxMessagesGetLinks",
        "/_sandbox/messages/{id}/links",
        "Get the links and the one-time codes of a message",
    );
}

pub(crate) const DELETE_ALL: Endpoint<(), (), MessageFilter> = Endpoint::new(
    DELETE,
    "sandboxMessagesClear",
    "/_sandbox/messages",
    "Clear the messages that match, or all of them",
);
pub(crate) const HTML_CHECK: Endpoint<(), HtmlCheck, CheckedPrograms> = Endpoint::new(
    GET,
    "sandboxMessagesGetHtmlCheck",
    "/_sandbox/messages/{id}/html-check",
    "Get what the HTML of a message uses that mail programs do not support",
);
pub(crate) const ATTACHMENT: Endpoint<(), Bytes> = Endpoint::content(
    "sandboxMessagesGetAttachments",
    "/_sandbox/messages/{id}/attachments/{n}",
    "Get an attachment of a message; the first is 1",
    "*/*",
);

pub(crate) const RELEASE: Endpoint<Release, Released> = Endpoint::new(
    POST,
    "sandboxMessagesSendRelease",
    "/_sandbox/messages/{id}/release",
    "Send a message through the relay to an address",
);

/// Who gets a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReleaseMessage")]
pub struct Release {
    /// The address. It need not be one that mail is relayed to.
    #[schemars(with = "schema::Mailbox")]
    pub to: String,
}

/// A message that the relay accepted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "ReleasedMessage")]
pub struct Released {
    /// The ID of the message.
    pub id: String,
    /// The address that it was sent to.
    pub to: String,
}

/// Which messages to list, to wait for or to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageFilter {
    /// The address of the recipient.
    #[schemars(with = "schema::Mailbox")]
    pub to: Option<String>,
    /// The address of the sender.
    #[schemars(with = "schema::Mailbox")]
    pub from: Option<String>,
    /// A part of the subject, case-insensitive.
    pub subject: Option<String>,
    /// Words, each of which is part of an address, a name, the subject, the text or the ID. The newest
    /// 5 000 messages are searched.
    pub search: Option<String>,
    /// Only messages after this time, or after the message or the email with this ID.
    #[schemars(with = "schema::Position")]
    pub after: Option<String>,
}

/// How many messages match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MessageCount {
    /// The number of messages.
    pub count: usize,
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

/// The mail programs that count.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckedPrograms {
    /// Their names, separated by commas; all by default.
    pub(crate) programs: Option<String>,
}

/// Features of HTML that mail programs do not support, by the data of <https://www.caniemail.com/>.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct HtmlCheck {
    /// The day of the data.
    pub date: String,
    /// The mail programs that there is data about.
    pub programs: Vec<String>,
    /// The features that the HTML uses, the least supported first.
    pub features: Vec<HtmlFeature>,
    /// The elements and properties of the HTML that there is no data about.
    pub unknown: Vec<String>,
}

/// A feature of HTML or CSS.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct HtmlFeature {
    /// The name in the data, such as `css-border-radius`.
    pub name: String,
    /// The name for people, such as `border-radius`.
    pub title: String,
    /// The mail programs that do not support it. Their platforms are in parentheses, unless these are all.
    pub none: Vec<String>,
    /// The mail programs that support it in part.
    pub partial: Vec<String>,
    /// Notes about the lack of support.
    pub notes: Vec<String>,
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

/// The results of the checks of an arriving message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageAuthentication")]
#[non_exhaustive]
pub struct Authentication {
    /// Whether the sending host may send for the domain of the envelope sender.
    pub spf: SpfVerdict,
    /// Whether a signature is valid, and of which domain.
    pub dkim: DkimResult,
}

/// The best of the DKIM signatures of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DkimResult {
    /// The result. It is only `pass` if sender, subject and content are signed.
    pub result: DkimVerdict,
    /// The signing domain; null if there is no signature, or one that is malformed. Everyone can sign
    /// with a domain of their own, see `aligned`.
    pub domain: Option<String>,
    /// Whether the signing domain is that of `From`, or one is a subdomain of the other.
    pub aligned: bool,
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
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DkimVerdict {
    /// The message has no signature.
    #[default]
    None,
    /// The signature or its key is malformed or missing, or programs may read the message
    /// differently: it has a bare CR or LF, control characters in its header, lines there that are
    /// not fields, or several senders.
    PermError,
    /// The key lookup failed temporarily.
    TempError,
    /// The signature does not match the message, is not of all that is shown, or is from the future.
    Fail,
    /// A signature matches the message.
    Pass,
}

names!(SpfVerdict, DkimVerdict);

impl Client {
    /// Counts the messages that match.
    pub fn count_messages(&self, filter: &MessageFilter) -> Request<MessageCount> {
        self.select(&COUNT, &[], filter)
    }

    /// Lists the messages that the mail engine delivered, and those that arrived, newest first.
    pub fn messages(&self, filter: &MessageFilter) -> Request<Page<MessageSummary>> {
        self.select(&LIST, &[], filter)
    }

    /// Waits up to 30 seconds, in real time, for a message to this address, and returns the newest
    /// one that is there, or the first one that arrives.
    ///
    /// The error of a wait that fails says what arrived instead.
    pub fn wait_for(&self, to: impl Into<String>) -> Request<Message> {
        let filter = MessageFilter {
            to: Some(to.into()),
            ..MessageFilter::default()
        };
        self.select(&WAIT, &[], &filter)
    }

    /// Waits for a message that the filter selects, in real time, at most ten minutes; see
    /// [`wait_for`](Self::wait_for).
    pub fn wait_for_message(&self, filter: &MessageFilter, timeout: Duration) -> Request<Message> {
        self.select(&WAIT, &[], filter).timeout(timeout)
    }

    /// Sends a message through the relay to this address.
    pub fn release_message(&self, id: &str, to: impl Into<String>) -> Request<Released> {
        self.send(&RELEASE, &[id], &Release { to: to.into() })
    }

    /// Deletes the messages that the filter selects, or all of the organization.
    pub fn delete_messages(&self, filter: &MessageFilter) -> Request<()> {
        self.select(&DELETE_ALL, &[], filter)
    }

    /// Returns the bytes of an attachment; the first of a message is 1.
    pub fn attachment(&self, id: &str, number: usize) -> Request<Bytes> {
        self.call(&ATTACHMENT, &[id, &number.to_string()])
    }

    /// Checks which features of the HTML of a message these mail programs do not support. An empty list
    /// stands for all programs.
    pub fn check_message(&self, id: &str, programs: &[impl AsRef<str>]) -> Request<HtmlCheck> {
        let names: Vec<&str> = programs.iter().map(AsRef::as_ref).collect();
        let programs = Some(names.join(",")).filter(|names| !names.is_empty());
        self.select(&HTML_CHECK, &[id], &CheckedPrograms { programs })
    }
}
