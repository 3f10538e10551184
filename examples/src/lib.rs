//! Tests of the example programs, which are in the `examples/` of the crates, and
//! `tests/it/against_the_server.rs`, tests to copy. Applications in other languages, with their tests,
//! are in `fastapi/`, `typescript/` and `go/`.
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
    #[doc = include_str!("../../docs/guides/errors-and-retries.md")]
    struct ErrorsAndRetries;
    #[doc = include_str!("../../docs/guides/rust.md")]
    struct Rust;
    #[doc = include_str!("../../docs/guides/webhooks.md")]
    struct Webhooks;
    #[doc = include_str!("../../docs/guides/webhooks-inbox.md")]
    struct WebhooksInbox;
}
