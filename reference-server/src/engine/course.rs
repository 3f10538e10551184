//! The course of an email, recipient by recipient (`docs/undocumented/email-service.md#status-transitions`, `docs/undocumented/email-service.md#several-recipients`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::webhooks::Event;

/// Where an email, or one of its recipients, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EmailStatus")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Queued,
    Sending,
    Sent,
    Delivered,
    Bounced,
    Failed,
    Complained,
    Cancelled,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Failed => "failed",
            Self::Complained => "complained",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn from_text(text: &str) -> Self {
        match text {
            "sending" => Self::Sending,
            "sent" => Self::Sent,
            "delivered" => Self::Delivered,
            "bounced" => Self::Bounced,
            "failed" => Self::Failed,
            "complained" => Self::Complained,
            "cancelled" => Self::Cancelled,
            _ => Self::Queued,
        }
    }

    /// How bad it is: an email stands where its worst recipient does.
    const fn badness(self) -> u8 {
        match self {
            Self::Cancelled => 8,
            Self::Failed => 7,
            Self::Bounced => 6,
            Self::Complained => 5,
            Self::Queued => 4,
            Self::Sending => 3,
            Self::Sent => 2,
            Self::Delivered => 1,
        }
    }
}

/// One recipient's course so far.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Recipient")]
pub(crate) struct RecipientState {
    pub(crate) address: String,
    pub(crate) status: Status,
    pub(crate) detail: Option<Value>,
}

/// The status of an email with these recipients.
pub(crate) fn overall(recipients: &[RecipientState]) -> Status {
    let all = recipients.iter().map(|recipient| recipient.status);
    all.max_by_key(|status| status.badness()).unwrap_or(Status::Delivered)
}

/// What can happen to a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Delivered,
    Bounced,
    Complained,
    Failed,
    Opened,
    Clicked,
}

impl Change {
    pub(crate) const ALL: [(&'static str, Self); 6] = [
        ("delivered", Self::Delivered),
        ("bounced", Self::Bounced),
        ("complained", Self::Complained),
        ("failed", Self::Failed),
        ("opened", Self::Opened),
        ("clicked", Self::Clicked),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, change)| change)
    }

    pub(crate) const fn event(self) -> Event {
        match self {
            Self::Delivered => Event::EmailDelivered,
            Self::Bounced => Event::EmailBounced,
            Self::Complained => Event::EmailComplained,
            Self::Failed => Event::EmailFailed,
            Self::Opened => Event::EmailOpened,
            Self::Clicked => Event::EmailClicked,
        }
    }

    /// The steps that a recipient takes from `from`, each with its event; none
    /// where this cannot happen to it.
    pub(crate) fn steps(self, from: Status) -> Option<Vec<(Status, Event)>> {
        const SENT: (Status, Event) = (Status::Sent, Event::EmailSent);
        let to = match self {
            Self::Delivered => Status::Delivered,
            Self::Bounced => Status::Bounced,
            Self::Complained => Status::Complained,
            Self::Failed => Status::Failed,
            Self::Opened | Self::Clicked => from,
        };
        let last = (to, self.event());
        match (self, from) {
            (Self::Delivered | Self::Bounced, Status::Sending) => Some(vec![SENT, last]),
            (Self::Delivered | Self::Bounced, Status::Sent)
            | (Self::Bounced | Self::Complained, Status::Delivered)
            | (Self::Failed, Status::Sending)
            | (Self::Opened | Self::Clicked, Status::Delivered | Status::Complained) => {
                Some(vec![last])
            }
            _ => None,
        }
    }
}

/// What becomes of a recipient that the mail engine takes up: magic recipients
/// have theirs in the name, with any `+label`, in any domain under `.test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    Bounced,
    Complained,
    Failed,
    /// Stays in `sending` for a minute.
    Delayed,
}

impl Outcome {
    /// `address` is a mailbox without a display name.
    pub(crate) fn of(address: &str) -> Self {
        let Some((local, domain)) = address.rsplit_once('@') else { return Self::Delivered };
        let top = domain.rsplit('.').next().unwrap_or(domain);
        if top.eq_ignore_ascii_case(domain) || !top.eq_ignore_ascii_case("test") {
            return Self::Delivered;
        }
        let name = local.split('+').next().unwrap_or(local);
        match name.to_ascii_lowercase().as_str() {
            "bounced" => Self::Bounced,
            "complained" => Self::Complained,
            "failed" => Self::Failed,
            "delayed" => Self::Delayed,
            _ => Self::Delivered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_recipients_have_labels_and_end_in_test() {
        assert_eq!(Outcome::of("bounced@a.test"), Outcome::Bounced);
        assert_eq!(Outcome::of("Failed+x+y@mail.a.TEST"), Outcome::Failed);
        assert_eq!(Outcome::of("complained+1@a.test"), Outcome::Complained);
        assert_eq!(Outcome::of("delayed@sandbox.test"), Outcome::Delayed);
        for other in ["bounced@a.example", "notbounced@a.test", "bounced.x@a.test", "bounced@test"]
        {
            assert_eq!(Outcome::of(other), Outcome::Delivered, "{other}");
        }
    }

    #[test]
    fn the_email_stands_where_its_worst_recipient_does() {
        let with = |statuses: &[Status]| {
            let state = |status: &Status| RecipientState {
                address: "a@b".to_owned(),
                status: *status,
                detail: None,
            };
            overall(&statuses.iter().map(state).collect::<Vec<_>>())
        };
        use Status::{Bounced, Complained, Delivered, Failed, Sending, Sent};
        assert_eq!(with(&[Delivered, Delivered]), Delivered);
        assert_eq!(with(&[Delivered, Sending, Sent]), Sending);
        assert_eq!(with(&[Complained, Sending]), Complained);
        assert_eq!(with(&[Complained, Bounced, Delivered]), Bounced);
        assert_eq!(with(&[Failed, Bounced]), Failed);
    }

    #[test]
    fn only_the_contracts_transitions_are_taken() {
        use Status::{Bounced, Cancelled, Complained, Delivered, Failed, Queued, Sending, Sent};
        let all = [Queued, Sending, Sent, Delivered, Bounced, Failed, Complained, Cancelled];
        let from = |change: Change| {
            all.into_iter().filter(|from| change.steps(*from).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(from(Change::Delivered), [Sending, Sent]);
        assert_eq!(from(Change::Bounced), [Sending, Sent, Delivered]);
        assert_eq!(from(Change::Complained), [Delivered]);
        assert_eq!(from(Change::Failed), [Sending]);
        assert_eq!(from(Change::Opened), [Delivered, Complained]);
        assert_eq!(from(Change::Clicked), [Delivered, Complained]);
    }
}
