//! [`Job`]: work that is due at a time of the server's clock, in a [`Queue`].

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Queue {
    /// Sends an email, or delivers it to the recipient at a position.
    Mail,
    /// Hands an email over to the relay.
    Relay,
    /// Announces a message in a mailbox of this server.
    Received,
    /// Makes an attempt of a delivery to the webhook with this id.
    Webhook(String),
}

impl Queue {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Mail => "mail",
            Self::Relay => "relay",
            Self::Received => "received",
            Self::Webhook(id) => id,
        }
    }

    pub(crate) fn from_text(text: String) -> Self {
        match text.as_str() {
            "mail" => Self::Mail,
            "relay" => Self::Relay,
            "received" => Self::Received,
            _ => Self::Webhook(text),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Job {
    pub(crate) queue: Queue,
    /// The id of an email, a message or a delivery.
    pub(crate) subject: String,
    /// The position of a recipient.
    pub(crate) position: Option<usize>,
}

impl Job {
    pub(crate) fn new(queue: Queue, subject: impl Into<String>) -> Self {
        Self {
            queue,
            subject: subject.into(),
            position: None,
        }
    }

    /// The first columns of its row.
    pub(crate) fn key(&self) -> (&str, &str, i64) {
        let position = self
            .position
            .and_then(|position| i64::try_from(position).ok());
        (self.queue.as_str(), &self.subject, position.unwrap_or(-1))
    }
}
