//! Emails in the control interface, where they are shown in every status: the endpoints of
//! `/_sandbox/emails`, their types, and the methods of `Client`. `EmailSummary` is also the part of
//! a stored email that `email_rows.rs` keeps as JSON, so its fields are in databases of users.
//! `email_api.rs` handles the requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::{Client, Cursor, Endpoint, GET, POST, Page, Request, requests};
use crate::deliveries::delivery_wire::Delivery;
use crate::messages::message_wire::MessageSummary;
use crate::model::{Change, RecipientState, Status, Timestamp, schema};
use crate::requests::request_wire::LoggedRequest;

pub(crate) const LIST: Endpoint<(), Page<EmailSummary>, EmailFilter> = Endpoint::list(
    "sandboxEmailsList",
    "/_sandbox/emails",
    "List the emails in every status",
    Cursor::Id,
);

requests! {
    /// Returns what happened to an email: its request, its changes, its messages, and its
    /// deliveries with their attempts.
    STORY: fn email_story(id) -> EmailStory = Endpoint::new(
        GET,
        "sandboxEmailsGetStory",
        "/_sandbox/emails/{id}/story",
        "Get what happened to an email",
    );

    /// Sends a scheduled email now.
    SEND: fn send_email_now(id) -> EmailSummary = Endpoint::new(
        POST,
        "sandboxEmailsSend",
        "/_sandbox/emails/{id}/send",
        "Send a scheduled email now",
    );
}

pub(crate) const EVENT: Endpoint<EmailEvent, EmailSummary> = Endpoint::new(
    POST,
    "sandboxEmailsSimulateEvents",
    "/_sandbox/emails/{id}/events",
    "Simulate an event of an email",
);

/// Which emails to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmailFilter {
    /// The status.
    #[schemars(with = "Status")]
    pub status: Option<Status>,
    /// The address of the sender or of any recipient.
    #[schemars(with = "schema::Mailbox")]
    pub address: Option<String>,
    /// A part of the subject, case-insensitive.
    pub subject: Option<String>,
    /// Words, each of which is part of an address, a name, the subject, the text, a tag, the status,
    /// the last event or the ID. The newest 5 000 emails are searched.
    pub search: Option<String>,
    /// The name of a tag, or its name and value as `name=value`.
    pub tag: Option<String>,
    /// Only emails after this time, or after the email with this ID.
    #[schemars(with = "schema::Position")]
    pub after: Option<String>,
    /// Only emails before this time, or before the email with this ID.
    #[schemars(with = "schema::Position")]
    pub before: Option<String>,
}

/// An email, without its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Email")]
#[non_exhaustive]
pub struct EmailSummary {
    /// The ID, `eml_…`.
    pub id: String,
    /// The status: the most severe one of its recipients.
    pub status: Status,
    /// The sender.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
    /// The recipients of copies.
    pub cc: Vec<String>,
    /// The recipients of blind copies.
    pub bcc: Vec<String>,
    /// The addresses for replies.
    pub reply_to: Vec<String>,
    /// The subject.
    pub subject: String,
    /// The tags.
    #[schemars(with = "Tags")]
    pub tags: Map<String, Value>,
    /// When it is to be sent, if it was scheduled.
    pub scheduled_at: Option<Timestamp>,
    /// The ID of its template.
    pub template_id: Option<String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The last event of any recipient, such as `email.delivered`.
    pub last_event: Option<String>,
}

/// The tags of an email, which are any JSON. It exists only for its schema, which has a name:
/// generators of clients cannot name one within a variant of a notification.
#[derive(JsonSchema)]
#[schemars(description = "")]
#[expect(dead_code, reason = "only for its schema")]
struct Tags(Map<String, Value>);

/// An email with its history.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EmailStory {
    /// The email.
    pub email: EmailSummary,
    /// The status of each recipient.
    pub recipients: Vec<RecipientState>,
    /// The request that sent it; null if the server does not have it any more.
    pub request: Option<LoggedRequest>,
    /// All changes, oldest first, at most 500 after the first one.
    pub timeline: Vec<EmailChange>,
    /// The messages in local mailboxes.
    pub messages: Vec<MessageSummary>,
    /// The webhook deliveries of its events with their attempts, oldest first, at most 100.
    pub deliveries: Vec<Delivery>,
    /// The webhooks of the email service that none of these deliveries is for.
    pub missing: Vec<MissingDelivery>,
}

/// Why a webhook got nothing about an email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MissingDelivery {
    /// The ID of the webhook.
    pub webhook: String,
    /// Where it delivers.
    pub url: String,
    /// The reason, such as `is paused, so it was not sent email.delivered`.
    pub reason: String,
}

/// A change of an email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EmailChange {
    /// When it happened.
    pub at: Timestamp,
    /// The status of the recipient after it.
    pub status: Status,
    /// The event, such as `email.delivered`.
    pub event: Option<String>,
    /// The address of the recipient; null if it concerns all of them.
    pub recipient: Option<String>,
}

/// An event of an email to simulate.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmailEvent {
    /// The organization, by ID or name. Default: that of the client; set it only on a client of none.
    pub organization: Option<String>,
    /// `delivered`, `bounced`, `complained`, `failed`, `opened` or `clicked`.
    #[schemars(with = "Change")]
    pub event: String,
    /// The address of the affected recipient. Default: all recipients whose status allows
    /// the event.
    pub recipient: Option<String>,
    /// `{type, reason}` for a bounce, `{url}` for a click, `{reason}` for other events. A
    /// string is short for the reason or the URL.
    pub detail: Option<Value>,
}

impl EmailEvent {
    /// An event such as `bounced`, for all recipients whose status allows it.
    pub fn new(event: impl Into<String>) -> Self {
        Self {
            event: event.into(),
            ..Self::default()
        }
    }
}

impl Client {
    /// Lists the emails in every status, newest first.
    pub fn emails(&self, filter: &EmailFilter) -> Request<Page<EmailSummary>> {
        self.select(&LIST, &[], filter)
    }

    /// Makes an event of an email happen, and notifies the webhooks.
    pub fn simulate_event(&self, id: &str, event: &EmailEvent) -> Request<EmailSummary> {
        self.send(&EVENT, &[id], event)
    }
}
