//! Emails as the service returns them, with their status (`docs/email-service/emails.md`).

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::client::Resource;
use crate::decode::{record, text_enum};

record! {
    /// An email as returned by the service.
    ///
    /// The service's reference documents only the id and the status
    /// (`docs/email-service/emails.md#statuses`). The other fields have the names that the
    /// request has, and are empty if the response does not contain them
    /// (`docs/undocumented/email-service.md#email-fields`).
    pub struct EmailRecord {
        /// The email's id; empty if the response has none.
        pub id: String = "id";
        /// The delivery status.
        pub status: Option<EmailStatus> = "status";
        /// The sender.
        pub from: Option<String> = "from", hidden;
        /// The recipients.
        pub to: Vec<String> = "to", hidden;
        /// Recipients of copies (Cc).
        pub cc: Vec<String> = "cc", hidden;
        /// Recipients of blind copies (Bcc).
        pub bcc: Vec<String> = "bcc", hidden;
        /// Addresses for replies.
        pub reply_to: Vec<String> = "replyTo" | "reply_to", hidden;
        /// The subject.
        pub subject: Option<String> = "subject", hidden;
        /// Tags for tracking.
        pub tags: Map<String, Value> = "tags", hidden;
        /// When the email is to be sent, if it was scheduled.
        pub scheduled_at: Option<DateTime<Utc>> = "scheduledAt" | "scheduled_at";
        /// When the service accepted the email.
        pub created_at: Option<DateTime<Utc>> = "createdAt" | "created_at";
        /// When the email last changed.
        pub updated_at: Option<DateTime<Utc>> = "updatedAt" | "updated_at";
    }
}

impl Resource for EmailRecord {
    const NOUN: &'static str = "an email";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

text_enum! {
    /// The delivery status of an email (`docs/email-service/emails.md#statuses`).
    pub enum EmailStatus {
        /// Accepted, waiting to be sent.
        Queued = "queued",
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
    }
}

impl EmailStatus {
    /// True if the status is not expected to change: any status except `queued`, `sending`
    /// and `sent`. Undocumented statuses count as final
    /// (`docs/undocumented/email-service.md#status-after-cancel`).
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Queued | Self::Sending | Self::Sent)
    }
}
