//! The event types of both services. Unknown event names are kept as text.

use alloc::boxed::Box;
use core::fmt;

macro_rules! events {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// An event that this version of the crate does not know, by its name.
            Unknown(Box<str>),
        }

        impl $name {
            /// All documented events, in the order of the service's reference.
            pub const KNOWN: &[Self] = &[$(Self::$variant),+];

            /// The event's name as it appears in the body.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(name) => name,
                }
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.into()),
                }
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

events! {
    /// An event of the extraction service (`docs/extraction-service/events.md`).
    ExtractionEvent {
        /// `extraction.completed`: an extraction finished successfully.
        Completed = "extraction.completed",
        /// `extraction.failed`: an extraction could not complete.
        Failed = "extraction.failed",
    }
}

events! {
    /// An event of the email service (`docs/email-service/events.md`).
    MailEvent {
        /// `email.sent`: the email was accepted and sent to the recipient's server.
        Sent = "email.sent",
        /// `email.delivered`: delivery to the inbox was confirmed.
        Delivered = "email.delivered",
        /// `email.bounced`: delivery failed (hard or soft bounce).
        Bounced = "email.bounced",
        /// `email.opened`: the recipient opened the email.
        Opened = "email.opened",
        /// `email.clicked`: the recipient clicked a link in the email.
        Clicked = "email.clicked",
        /// `email.complained`: the recipient marked the email as spam.
        Complained = "email.complained",
        /// `email.failed`: the email could not be sent because of an error.
        Failed = "email.failed",
        /// `email.received`: an email arrived at a verified domain.
        Received = "email.received",
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// The names as the references of both services give them.
    #[test]
    fn event_names_match_the_references() {
        let extraction = ["extraction.completed", "extraction.failed"];
        assert!(ExtractionEvent::KNOWN.iter().map(ExtractionEvent::as_str).eq(extraction));
        let mail = [
            "email.sent",
            "email.delivered",
            "email.bounced",
            "email.opened",
            "email.clicked",
            "email.complained",
            "email.failed",
            "email.received",
        ];
        assert!(MailEvent::KNOWN.iter().map(MailEvent::as_str).eq(mail));
        for (event, name) in MailEvent::KNOWN.iter().zip(mail) {
            assert_eq!(MailEvent::from(name), *event);
        }
        assert_eq!(MailEvent::from("Email.Sent"), MailEvent::Unknown("Email.Sent".into()));
        assert_eq!(
            format!("{:>12}|{:<12}|", MailEvent::Sent, MailEvent::from("new")),
            "  email.sent|new         |"
        );
    }
}
