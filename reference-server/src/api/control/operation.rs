//! [`ControlOperation`]: the operations of the control interface. `routes.rs` maps each to its
//! handler, and `openapi/` to its description.

use http::Method;

macro_rules! operations {
    ($($variant:ident $method:ident $path:literal,)*) => {
        /// An operation of the control interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum ControlOperation { $($variant,)* }

        impl ControlOperation {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn method(self) -> Method {
                match self { $(Self::$variant => Method::$method,)* }
            }

            pub(crate) const fn path(self) -> &'static str {
                match self { $(Self::$variant => $path,)* }
            }
        }
    };
}

operations! {
    Health GET "/_sandbox/health",
    Lease GET "/_sandbox/lease",
    Metrics GET "/metrics",
    Ready GET "/readyz",
    OrganizationsCreate POST "/_sandbox/organizations",
    OrganizationsList GET "/_sandbox/organizations",
    KeysCreate POST "/_sandbox/keys",
    KeysList GET "/_sandbox/keys",
    KeysDelete DELETE "/_sandbox/keys/{id}",
    TemplatesPut PUT "/_sandbox/templates/{id}",
    TemplatesGet GET "/_sandbox/templates/{id}",
    TemplatesDelete DELETE "/_sandbox/templates/{id}",
    DnsPublish POST "/_sandbox/dns/{domain}/publish",
    DnsWithdraw DELETE "/_sandbox/dns/{domain}",
    DnsWithdrawRecord DELETE "/_sandbox/dns/{domain}/{record}",
    MessagesList GET "/_sandbox/messages",
    MessagesWait GET "/_sandbox/messages/wait",
    MessagesGet GET "/_sandbox/messages/{id}",
    MessagesRaw GET "/_sandbox/messages/{id}/raw",
    MessagesHtml GET "/_sandbox/messages/{id}/html",
    MessagesLinks GET "/_sandbox/messages/{id}/links",
    EventsCreate POST "/_sandbox/emails/{id}/events",
    InboundCreate POST "/_sandbox/inbound",
    ExtractionsCreate POST "/_sandbox/extractions",
    DeliveriesList GET "/_sandbox/deliveries",
    DeliveriesGet GET "/_sandbox/deliveries/{id}",
    DeliveriesReplay POST "/_sandbox/deliveries/{id}/replay",
    ClockGet GET "/_sandbox/clock",
    ClockSet POST "/_sandbox/clock",
    FaultsList GET "/_sandbox/faults",
    FaultsCreate POST "/_sandbox/faults",
    FaultsClear DELETE "/_sandbox/faults",
    FaultsGet GET "/_sandbox/faults/{id}",
    FaultsDelete DELETE "/_sandbox/faults/{id}",
    Reset POST "/_sandbox/reset",
}
