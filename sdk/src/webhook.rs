//! The types that the webhooks of both services share.

use serde::{Deserialize, Serialize};

use crate::decode::Extra;
use crate::engine::request_type;
use crate::names::{debug_fields, text_enum};

text_enum! {
    /// An event of either service that a webhook can subscribe to: of the
    /// [email service](https://github.com/svc-tools/svc/blob/main/docs/email-service/webhooks.md#events),
    /// and of the
    /// [extraction service](https://github.com/svc-tools/svc/blob/main/docs/extraction-service/README.md#events).
    /// Names and values are those of `webhook_verify::Event`, the event of a received delivery.
    pub enum Event {
        /// The email was sent to the recipient's mail server.
        EmailSent = "email.sent",
        /// Delivery to the inbox was confirmed.
        EmailDelivered = "email.delivered",
        /// Delivery failed (hard or soft bounce).
        EmailBounced = "email.bounced",
        /// The recipient opened the email.
        EmailOpened = "email.opened",
        /// The recipient clicked a link in the email.
        EmailClicked = "email.clicked",
        /// The recipient marked the email as spam.
        EmailComplained = "email.complained",
        /// Sending failed.
        EmailFailed = "email.failed",
        /// An email arrived for a verified domain.
        EmailReceived = "email.received",
        /// An extraction succeeded.
        ExtractionCompleted = "extraction.completed",
        /// An extraction failed.
        ExtractionFailed = "extraction.failed",
    }
}

impl From<&str> for Event {
    fn from(text: &str) -> Self {
        Self::from_word(text).unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// The parameters of a new webhook of either service.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewWebhook {
    /// The URL of the endpoint. The email service requires `https`.
    pub url: String,
    /// The events to subscribe to.
    pub events: Vec<String>,
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
}

request_type!(NewWebhook);

impl NewWebhook {
    /// Creates the parameters with these events: strings, or [`Event`]s of the service.
    pub fn new<E: Into<String>>(
        url: impl Into<String>,
        events: impl IntoIterator<Item = E>,
    ) -> Self {
        let events = events.into_iter().map(Into::into).collect();
        Self {
            url: url.into(),
            events,
            extra: Extra::default(),
        }
    }
}

debug_fields!(NewWebhook: events);
