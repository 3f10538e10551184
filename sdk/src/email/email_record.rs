//! `EmailRecord`, an email as the service returns it, and its `EmailStatus`. Before serde reads the
//! fields, `prepare` finds the status, wherever the response has it, and replaces words that the
//! dialect pins. Words with the same meaning become the same status. A word of unknown meaning is
//! kept as `EmailStatus::Other`, which is neither final nor delivered, so that a wait goes on.
//! Whether a send was accepted is decided in `verdict.rs`.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::decode::{self, resource};
use crate::dialect::{Dialect, Point};
use crate::fields::{Fields, at, find, find_within, plain};
use crate::names::{debug_fields, text_enum};
use crate::words::WORDS;

resource! {
    /// An email as returned by the service.
    ///
    /// The service's reference documents only the
    /// [status](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#statuses).
    /// The other fields have the names that the request has, and are empty if the response does not
    /// contain them
    /// ([details](https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#email-fields)).
    EmailRecord, "an email", "email", prepare;

    /// The delivery status.
    status: Option<EmailStatus>;

    /// The sender.
    from: Option<String>;

    /// The recipients.
    to: Vec<String> = "decode::one_or_many";

    /// Recipients of copies (Cc).
    cc: Vec<String> = "decode::one_or_many";

    /// Recipients of blind copies (Bcc).
    bcc: Vec<String> = "decode::one_or_many";

    /// Addresses for replies.
    reply_to ["replyTo"]: Vec<String> = "decode::one_or_many";

    /// The subject.
    subject: Option<String>;

    /// Tags for tracking.
    tags: Map<String, Value> = "decode::object_or_empty";

    /// When the email is to be sent, if it was scheduled.
    scheduled_at ["scheduledAt"]: Option<DateTime<Utc>> = "decode::time";

    /// When the service accepted the email.
    created_at ["createdAt"]: Option<DateTime<Utc>> = "decode::time";

    /// When the email last changed.
    updated_at ["updatedAt"]: Option<DateTime<Utc>> = "decode::time";
}

debug_fields!(EmailRecord: id, status, scheduled_at, created_at, updated_at, extra);

/// Finds the status, and the words that the dialect has for some.
fn prepare(fields: &mut Fields, dialect: &Dialect) {
    let Some(status) = find_status(fields, dialect).cloned() else {
        return;
    };

    if let Some(field) = dialect.pinned(Point::StatusField) {
        fields.remove(field);
    }
    let word = status.as_str().map(plain);
    let is_word = |point| word.is_some() && dialect.pinned(point).map(plain) == word;
    let status = match word.as_deref() {
        // For a scheduled email, it is what it says.
        Some("queued") => status,
        _ if is_word(Point::CancelledWord) => EmailStatus::Cancelled.as_str().into(),
        _ if is_word(Point::ScheduledWord) => EmailStatus::Scheduled.as_str().into(),
        _ => status,
    };
    fields.insert("status".to_owned(), status);
}

fn find_status<'a>(fields: &'a Fields, dialect: &Dialect) -> Option<&'a Value> {
    let pinned = dialect.pinned(Point::StatusField);
    let pinned = pinned
        .and_then(|field| at(fields, field).or_else(|| find_within(fields, &[&plain(field)], 2)));
    let last_event = || {
        let (_, last) = find(fields, &WORDS.last_events)?;
        Some(last).filter(|last| last.is_string())
    };
    // `{"delivery": {"state": "DELIVERED"}}`
    let of_delivery = || {
        let (_, delivery) = find(fields, &["delivery", "deliveryinfo"])?;
        Some(find(delivery.as_object()?, &["status", "state"])?.1)
    };

    let status = pinned
        .or_else(|| fields.get("status"))
        .or_else(last_event)
        .or_else(of_delivery)?;
    // `{"status": {"code": "DELIVERED"}}`
    let inside = || {
        let names = ["value", "name", "code", "state", "status"];
        let (_, word) = find(status.as_object()?, &names)?;
        Some(word).filter(|word| word.is_string())
    };

    inside().or(Some(status))
}

text_enum! {
    /// The delivery
    /// [status](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#statuses)
    /// of an email. It is read without case and by its meaning: `BOUNCED` and `hard_bounce` are
    /// [`Bounced`](Self::Bounced).
    pub enum EmailStatus {
        /// Accepted, waiting to be sent.
        Queued = "queued" | "accepted" | "enqueued" | "submitted" | "received",
        /// Waiting for its date.
        Scheduled = "scheduled",
        /// Waiting.
        Pending = "pending" | "waiting",
        /// Being prepared.
        Processing = "processing" | "processed" | "inprogress" | "running",
        /// Being processed by the mail engine.
        Sending = "sending",
        /// The recipient's mail server asked to come back later.
        Deferred = "deferred" | "delayed" | "deliverydelayed" | "retrying",
        /// Handed off to the recipient's mail server.
        Sent = "sent",
        /// Confirmed delivered to the inbox.
        Delivered = "delivered",
        /// Delivered, and opened.
        Opened = "opened",
        /// Delivered, and a link in it was clicked.
        Clicked = "clicked",
        /// Delivery failed (hard or soft bounce).
        Bounced = "bounced" | "bounce" | "hardbounce" | "hardbounced" | "softbounce" | "softbounced"
            | "undeliverable" | "undelivered",
        /// Sending error.
        Failed = "failed" | "failure" | "fail" | "error" | "errored",
        /// The recipient marked it as spam.
        Complained = "complained" | "complaint" | "spam" | "spamcomplaint" | "markedasspam",
        /// Cancelled before it was sent.
        Cancelled = "cancelled" | "canceled",
        /// Refused after it was accepted.
        Rejected = "rejected" | "reject" | "refused",
        /// Not sent, for a reason of the service.
        Dropped = "dropped" | "discarded",
        /// Not sent, because the recipient does not want emails or bounced before.
        Suppressed = "suppressed" | "blocked" | "unsubscribed",
    }
}

impl EmailStatus {
    /// True if the status is not expected to change: delivered, opened, clicked, bounced, failed,
    /// complained, cancelled, rejected, dropped or suppressed. An unknown word is not final.
    pub fn is_final(&self) -> bool {
        self.is_delivered() || self.is_undelivered()
    }

    /// True if the email arrived, and was not marked as spam.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered | Self::Opened | Self::Clicked)
    }

    /// True if the email certainly does not arrive, or was marked as spam.
    pub fn is_undelivered(&self) -> bool {
        matches!(
            self,
            Self::Bounced
                | Self::Failed
                | Self::Complained
                | Self::Cancelled
                | Self::Rejected
                | Self::Dropped
                | Self::Suppressed
        )
    }
}

impl From<&str> for EmailStatus {
    fn from(text: &str) -> Self {
        let whole = Self::from_word(&plain(text));
        // `email.delivered`, `STATUS_DELIVERED`: but not `not_delivered`.
        let last = || {
            let (kind, word) = text.rsplit_once(['.', '_', ':', ' '])?;
            let is_prefix = kind.split(['.', '_', ':', ' ']).all(|part| {
                matches!(
                    part.to_ascii_lowercase().as_str(),
                    "email" | "message" | "status" | "state" | "delivery"
                )
            });
            Self::from_word(&plain(word)).filter(|_| is_prefix)
        };
        whole
            .or_else(last)
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}
