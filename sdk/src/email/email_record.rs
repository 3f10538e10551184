//! Emails as the service returns them, with their status.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decode::{self, Extra, resource};
use crate::names::{debug_fields, text_enum};

/// An email as returned by the service.
///
/// The service's reference documents only the
/// [status](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#statuses).
/// The other fields have the names that the request has, and are empty if the response does not
/// contain them
/// ([details](https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#email-fields)).
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct EmailRecord {
    /// The email's id; empty if the response has none.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The delivery status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<EmailStatus>,
    /// The sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recipients.
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub to: Vec<String>,
    /// Recipients of copies (Cc).
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cc: Vec<String>,
    /// Recipients of blind copies (Bcc).
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub bcc: Vec<String>,
    /// Addresses for replies.
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reply_to: Vec<String>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Tags for tracking.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub tags: Map<String, Value>,
    /// When the email is to be sent, if it was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<DateTime<Utc>>,
    /// When the service accepted the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<DateTime<Utc>>,
    /// When the email last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<DateTime<Utc>>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(EmailRecord, "an email");

debug_fields!(EmailRecord: id, status, scheduled_at, created_at, updated_at, extra);

text_enum! {
    /// The delivery
    /// [status](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#statuses)
    /// of an email.
    pub enum EmailStatus {
        /// Accepted, waiting to be sent.
        Queued = "queued",
        /// Waiting for its time. The reference does not document this status.
        Scheduled = "scheduled",
        /// Being processed by the mail engine.
        Sending = "sending",
        /// Handed off to the recipient's mail server.
        Sent = "sent",
        /// Confirmed delivered to the inbox.
        Delivered = "delivered",
        /// Delivery failed (hard or soft bounce).
        Bounced = "bounced",
        /// Sending error.
        Failed = "failed",
        /// The recipient marked it as spam.
        Complained = "complained",
        /// Cancelled before it was sent. The reference does not document this status.
        Cancelled = "cancelled",
    }
}

impl EmailStatus {
    /// True if the status is not expected to change: any status except `queued`, `scheduled`,
    /// `sending` and `sent`. A status that this version does not know counts as final.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::Queued | Self::Scheduled | Self::Sending | Self::Sent
        )
    }
}
