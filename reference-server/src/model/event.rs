//! The documented events of both services.

use svc_sdk::Service;

macro_rules! events {
    ($($variant:ident $name:literal $service:ident $description:literal,)*) => {
        /// A documented event of one of the services.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Event { $($variant,)* }

        impl Event {
            /// All events that a webhook can subscribe to.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// When it occurs (`docs/email-service/webhooks.md#events`,
            /// `docs/extraction-service/README.md#events`).
            pub(crate) const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }

            pub(crate) const fn service(self) -> Service {
                match self { $(Self::$variant => Service::$service,)* }
            }
        }
    };
}

events! {
    EmailSent "email.sent" Email
        "An email was accepted and sent to the recipient's server.",
    EmailDelivered "email.delivered" Email
        "An email was delivered to the recipient's mailbox.",
    EmailBounced "email.bounced" Email
        "The delivery of an email failed permanently (`hard`) or after all retries (`soft`).",
    EmailOpened "email.opened" Email
        "A recipient opened an email.",
    EmailClicked "email.clicked" Email
        "A recipient clicked a link in an email.",
    EmailComplained "email.complained" Email
        "A recipient marked an email as spam.",
    EmailFailed "email.failed" Email
        "An email could not be sent because of an error.",
    EmailReceived "email.received" Email
        "An email arrived for a verified domain.",
    ExtractionCompleted "extraction.completed" Extraction
        "An extraction finished. `data` contains the extracted fields.",
    ExtractionFailed "extraction.failed" Extraction
        "An extraction failed.",
}

impl Event {
    /// Event name of the test operation. Webhooks cannot subscribe to it
    /// (`docs/undocumented/services.md#webhook-test`).
    pub(crate) const TEST: &str = "webhook.test";

    pub(crate) fn parse(service: Service, name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.service() == service && event.as_str() == name)
    }

    /// The event names of a service, for error messages.
    pub(crate) fn names(service: Service) -> String {
        let all = Self::ALL.iter().filter(|event| event.service() == service);
        all.map(|event| event.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}
