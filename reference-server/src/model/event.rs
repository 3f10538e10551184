//! The documented events of both services.

use svc_sdk::Service;

macro_rules! events {
    ($($variant:ident $name:literal $service:ident,)*) => {
        /// A documented event of one of the services.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Event { $($variant,)* }

        impl Event {
            /// All events that a webhook can subscribe to.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) const fn service(self) -> Service {
                match self { $(Self::$variant => Service::$service,)* }
            }
        }
    };
}

events! {
    EmailSent "email.sent" Email,
    EmailDelivered "email.delivered" Email,
    EmailBounced "email.bounced" Email,
    EmailOpened "email.opened" Email,
    EmailClicked "email.clicked" Email,
    EmailComplained "email.complained" Email,
    EmailFailed "email.failed" Email,
    EmailReceived "email.received" Email,
    ExtractionCompleted "extraction.completed" Extraction,
    ExtractionFailed "extraction.failed" Extraction,
}

impl Event {
    /// Event name of the test operation. Webhooks cannot subscribe to it
    /// (`docs/undocumented/email-service.md#webhook-test`).
    pub(crate) const TEST: &str = "webhook.test";

    pub(crate) fn parse(service: Service, name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.service() == service && event.as_str() == name)
    }

    /// The event names of a service, for error messages.
    pub(crate) fn names(service: Service) -> String {
        let all = Self::ALL.iter().filter(|event| event.service() == service);
        all.map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
    }
}
