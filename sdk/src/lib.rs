//! Typed client of two services: one sends email, one extracts fields from
//! documents.
//!
//! ```no_run
//! # async fn f() -> Result<(), svc_sdk::Error> {
//! use svc_sdk::EmailClient;
//! use svc_sdk::email::{Attachment, Email};
//!
//! let client = EmailClient::builder("https://mail.example", "mk_live_…").build()?;
//! let email = Email::new("Shop <hello@shop.example>", "ada@example.com", "Your invoice")
//!     .text("Thank you!")
//!     .attachment(Attachment::from_path("invoice.pdf").expect("the invoice"));
//! let accepted = client.emails().send(&email).await?;
//! let email = client.emails().wait(&accepted.id).await?;
//! println!("{:?}", email.status);
//! # Ok(())
//! # }
//! ```
//!
//! # Calls
//!
//! Every operation gives a [`Call`]. It runs when it is awaited; until then it
//! takes options for this one call: a deadline, retries, an idempotency key, a
//! header. [`Call::with_response`] gives status, headers and request id beside
//! the value, [`Call::to_request`] shows the exact request and sends nothing.
//! What the documents do not show is reached by [`EmailClient::raw`].
//!
//! ```no_run
//! # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
//! use svc_sdk::email::Email;
//!
//! let email = Email::new("hello@shop.example", "ada@example.com", "Soon")
//!     .scheduled_at("2030-01-01T09:00:00Z");
//! let scheduled = client.emails().send(&email).idempotency_key("order-7").await?;
//! let cancelled = client.emails().cancel(&scheduled.id).with_response().await?;
//! println!("{:?} {:?}", cancelled.value.status, cancelled.request_id);
//! # Ok(())
//! # }
//! ```
//!
//! Contacts come as streams ([`contacts().stream`](email::Contacts::stream)),
//! and so do changes that are waited for ([`Wait::changes`]): `futures-util`
//! has what it takes to go through them.
//!
//! # Nothing is sent twice
//!
//! A read is tried again after any failure that may pass. A send is tried
//! again only where it certainly was not processed: no connection was made,
//! the service said 429, or an HTTP/2 server refused to take it. All attempts
//! and waits of a call share one deadline, 30 s by default. Where a call fails,
//! [`Error::outcome`] says whether the request may have been processed. A call
//! that is dropped makes no further attempt; what had gone out by then may have
//! been processed.
//!
//! # Errors
//!
//! One [`Error`], with a [`kind`](Error::kind) to match on, the operation, the
//! scope that it needs, the service's code and words, and the request id.
//! Neither `Display` nor `Debug` shows a key or content.
//!
//! # Tolerance
//!
//! Where the documents are silent, any reasonable answer is read: lists bare
//! or wrapped, more fields or fewer, errors in each of the usual forms. What
//! the documents do not name is kept, see [`Extra`]. What cannot be found out
//! is set on the builder: the key's header, the shape of a batch, the number
//! of the first page.
//!
//! # Around the calls
//!
//! `EmailClientBuilder::on_attempt` tells of every attempt, for logs and
//! metrics. A tower layer (feature `tower`) can change it too. A client of your
//! own goes in by [`EmailClientBuilder::http_client`], and proxies are those of
//! the environment unless the builder names one.
//!
//! # Testing your code
//!
//! The crate `svc-reference-server` is both services on your machine, for your
//! tests too: each starts its own, in memory and on a free port, in some
//! milliseconds. To be copied into your `tests/`, with that crate among the
//! `dev-dependencies`:
//!
//! ```ignore
//! use svc_reference_server::Server;
//! use svc_sdk::EmailClient;
//! use svc_sdk::email::{Email, EmailStatus};
//!
//! #[tokio::test]
//! async fn a_new_user_is_welcomed() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start().await?;
//!     let client = EmailClient::builder(server.base_url(), "mk_test_sandbox").build()?;
//!
//!     // What would be yours: code that sends an email.
//!     let email = Email::new("hello@sandbox.test", "ada@example.test", "Welcome");
//!     let id = client.emails().send(&email).await?.id;
//!
//!     server.until_idle().await;
//!     let email = client.emails().get(&id).await?;
//!     assert_eq!(email.status, Some(EmailStatus::Delivered));
//!     Ok(())
//! }
//! ```
//!
//! An address like `bounced+1@example.test` bounces, and each organization of
//! `server.create_organization("First")` has keys and data of its own.
//!
//! # In a browser
//!
//! On `wasm32-unknown-unknown`, without default features and with `client` (and
//! `tracing` and `rate-limit`), `fetch` sends. It takes bodies whole and tells
//! nothing of how far a request got, so the outcome of a failure is mostly
//! unknown; redirects are followed by the browser, and their answers refused.
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `client` (default) | the clients; without it there are models, scopes, errors and [`Operation`]s |
//! | `rustls` (default) | TLS by rustls on ring, the platform's certificates read at the first handshake |
//! | `native-tls` | the platform's TLS: by itself, or where a builder asks for it |
//! | `http2` | HTTP/2 where the service offers it |
//! | `blocking` | `Call::block` for programs without a runtime |
//! | `tracing` | a span for every attempt, by OpenTelemetry's names |
//! | `tower` | tower layers around every attempt |
//! | `rate-limit` | a limit on how often the client sends |
//!
//! `rustls` turns on reqwest's `rustls-no-provider`. A program whose own
//! reqwest has no TLS provider of its own, and who calls
//! `reqwest::Client::new()`, then has to install one
//! (`rustls::crypto::CryptoProvider::install_default`); this crate needs none.
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "client"),
    expect(dead_code, reason = "what reads the services' answers is used by the client alone")
)]
#![cfg_attr(
    all(feature = "client", target_arch = "wasm32", target_os = "unknown"),
    expect(dead_code, reason = "a browser tells less, and has its own connections and proxies")
)]

#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
#[cfg(feature = "client")]
mod client;
pub mod email;
mod error;
pub mod extraction;
mod operation;
mod scope;
mod scopes;
mod secret;

pub use answer::{Extra, List};
#[cfg(feature = "client")]
pub use client::{
    Attempt, Call, Deleted, EmailClient, EmailClientBuilder, ExtractionClient,
    ExtractionClientBuilder, RawResponse, RequestPreview, Response, Wait,
};
#[cfg(feature = "tower")]
pub use client::{AttemptFuture, AttemptService, Body};
pub use error::{Error, ErrorKind, FieldProblem, InvalidInput, Outcome};
pub use operation::{Method, Operation, ScopeRule, Service};
pub use scope::{Scope, UnknownScope};
pub use scopes::Scopes;
pub use secret::Secret;
