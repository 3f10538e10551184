//! The lifecycle of an email: the status of each recipient, the transitions between
//! statuses, and the status of the email as a whole
//! (`docs/undocumented/services.md#status-transitions`,
//! `docs/undocumented/services.md#several-recipients`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::event::Event;

/// Status of an email or of one of its recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EmailStatus")]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Waits to be sent.
    Queued,
    /// In progress.
    Sending,
    /// Handed over, with an unknown outcome.
    Sent,
    /// In the mailbox of the recipient.
    Delivered,
    /// Refused by the recipient's server.
    Bounced,
    /// Not sent.
    Failed,
    /// Marked as spam by the recipient.
    Complained,
    /// Cancelled before it was sent.
    Cancelled,
}

impl Status {
    /// The name, such as `delivered`.
    pub const fn as_str(self) -> &'static str {
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
}

names!(Status);

/// State of one recipient.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Recipient")]
#[non_exhaustive]
pub struct RecipientState {
    /// The address.
    pub address: String,
    /// The status.
    pub status: Status,
    /// For a bounce `{type, reason}`, for a click `{url}`, for other events `{reason}`.
    pub detail: Option<Value>,
}

/// The status of an email with these recipients: the most severe one.
pub(crate) fn overall(recipients: &[RecipientState]) -> Status {
    use Status as S;

    let by_severity = [
        S::Cancelled,
        S::Failed,
        S::Bounced,
        S::Complained,
        S::Queued,
        S::Sending,
        S::Sent,
    ];
    let has = |status: &Status| {
        recipients
            .iter()
            .any(|recipient| recipient.status == *status)
    };

    by_severity
        .into_iter()
        .find(has)
        .unwrap_or(Status::Delivered)
}

/// Changes of a recipient's state. All but the first can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Change {
    /// Handed over, with an unknown outcome.
    #[serde(skip)]
    Sent,
    Delivered,
    Bounced,
    Complained,
    Failed,
    Opened,
    Clicked,
}

names!(Change);

impl Change {
    /// The transitions that this change makes from `from`, each with its event. `None`
    /// if the change is not possible in that status.
    pub(crate) fn steps(self, from: Status) -> Option<Vec<(Status, Event)>> {
        const SENT: (Status, Event) = (Status::Sent, Event::EmailSent);
        let last = match self {
            Self::Sent => SENT,
            Self::Delivered => (Status::Delivered, Event::EmailDelivered),
            Self::Bounced => (Status::Bounced, Event::EmailBounced),
            Self::Complained => (Status::Complained, Event::EmailComplained),
            Self::Failed => (Status::Failed, Event::EmailFailed),
            Self::Opened => (from, Event::EmailOpened),
            Self::Clicked => (from, Event::EmailClicked),
        };
        match (self, from) {
            (Self::Delivered | Self::Bounced, Status::Sending) => Some(vec![SENT, last]),
            (Self::Delivered | Self::Bounced, Status::Sent)
            | (Self::Bounced | Self::Complained, Status::Delivered)
            | (Self::Failed | Self::Sent, Status::Sending)
            | (Self::Opened | Self::Clicked, Status::Delivered | Status::Complained) => {
                Some(vec![last])
            }
            _ => None,
        }
    }
}

/// The changes that the simulated delivery makes to an address without display name; none if it stays
/// in `sending` for a minute. Magic recipients name it in the local part, with an optional `+label`, in
/// any domain under `.test`.
pub(crate) fn simulated(address: &str) -> &'static [Change] {
    const DELIVERED: &[Change] = &[Change::Delivered];

    let Some((local, domain)) = address.rsplit_once('@') else {
        return DELIVERED;
    };

    let top = domain.rsplit('.').next().unwrap_or(domain);
    if top.eq_ignore_ascii_case(domain) || !top.eq_ignore_ascii_case("test") {
        return DELIVERED;
    }

    let name = local.split('+').next().unwrap_or(local);
    match name.to_ascii_lowercase().as_str() {
        "bounced" => &[Change::Bounced],
        "complained" => &[Change::Delivered, Change::Complained],
        "failed" => &[Change::Failed],
        "delayed" => &[],
        _ => DELIVERED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_recipients_allow_labels_and_require_a_test_domain() {
        assert_eq!(simulated("bounced@a.test"), [Change::Bounced]);
        assert_eq!(simulated("Failed+x+y@mail.a.TEST"), [Change::Failed]);
        assert_eq!(
            simulated("complained+1@a.test"),
            [Change::Delivered, Change::Complained]
        );
        assert!(simulated("delayed@sandbox.test").is_empty());
        for other in [
            "bounced@a.example",
            "notbounced@a.test",
            "bounced.x@a.test",
            "bounced@test",
        ] {
            assert_eq!(simulated(other), [Change::Delivered], "{other}");
        }
    }

    #[test]
    fn the_email_has_the_most_severe_recipient_status() {
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
    fn only_documented_transitions_are_possible() {
        use Status::{Bounced, Cancelled, Complained, Delivered, Failed, Queued, Sending, Sent};

        let all = [
            Queued, Sending, Sent, Delivered, Bounced, Failed, Complained, Cancelled,
        ];
        let from = |change: Change| {
            all.into_iter()
                .filter(|from| change.steps(*from).is_some())
                .collect::<Vec<_>>()
        };

        assert_eq!(from(Change::Delivered), [Sending, Sent]);
        assert_eq!(from(Change::Bounced), [Sending, Sent, Delivered]);
        assert_eq!(from(Change::Complained), [Delivered]);
        assert_eq!(from(Change::Failed), [Sending]);
        assert_eq!(from(Change::Opened), [Delivered, Complained]);
        assert_eq!(from(Change::Clicked), [Delivered, Complained]);
    }
}
