//! Example programs: `src/bin/`, and `tests/it/against_the_server.rs` for tests.
//!
//! This crate also compiles the examples in the READMEs of the project, of the SDK and of the
//! reference server as doc tests.
#![doc = include_str!("../../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../reference-server/README.md")]
struct ReferenceServer;

#[cfg(doctest)]
#[doc = include_str!("../../sdk/README.md")]
struct Sdk;

/// The pages of the book that have Rust examples.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/email-service/events.md")]
    struct EmailEvents;
    #[doc = include_str!("../../docs/extraction-service/events.md")]
    struct ExtractionEvents;
    #[doc = include_str!("../../docs/extraction-service/organization.md")]
    struct Organization;
    #[doc = include_str!("../../docs/guides/domains.md")]
    struct Domains;
    #[doc = include_str!("../../docs/guides/errors-and-retries.md")]
    struct ErrorsAndRetries;
    #[doc = include_str!("../../docs/guides/first-send.md")]
    struct FirstSend;
    #[doc = include_str!("../../docs/guides/recipient-guard.md")]
    struct RecipientGuard;
    #[doc = include_str!("../../docs/guides/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/guides/webhooks-actix.md")]
    struct WebhooksActix;
    #[doc = include_str!("../../docs/guides/webhooks-axum.md")]
    struct WebhooksAxum;
    #[doc = include_str!("../../docs/guides/webhooks-inbox.md")]
    struct WebhooksInbox;
    #[doc = include_str!("../../docs/undocumented/README.md")]
    struct Undocumented;
}
