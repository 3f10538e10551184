//! Typed clients for an email-sending service and a document-extraction service.
//!
//! - [`EmailClient`] sends emails and manages audiences, contacts, domains and webhooks.
//! - [`ExtractionClient`] reads the organization of an API key and manages webhooks.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use svc_sdk::EmailClient;
//! use svc_sdk::email::{Attachment, Email};
//!
//! let client = EmailClient::builder("https://mail.example", "mk_live_…").build()?;
//! let email = Email::new("Shop <hello@shop.example>", "ada@example.com", "Your invoice")
//!     .text("Thank you!")
//!     .attachment(Attachment::from_path("invoice.pdf")?);
//! let accepted = client.emails().send(&email).await?;
//! let email = client.emails().wait(&accepted.id).await?;
//! println!("{:?}", email.status);
//! # Ok(())
//! # }
//! ```
//!
//! # Calls
//!
//! Every operation returns a [`Call`], which sends its request when it is awaited. Before
//! that, it takes options: a timeout, the number of retries, an idempotency key, a header.
//! [`Call::with_response`] returns the status, headers and request id along with the value.
//! [`Call::to_request`] returns the request without sending it. To run a call as a task, use
//! `tokio::spawn(call.into_future())`. For an endpoint that this
//! crate does not model, use [`EmailClient::raw`] or [`ExtractionClient::raw`].
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
//! The methods `stream` of all lists and [`Wait::changes`] return a `Stream`;
//! the `futures-util` crate has the adapters to consume them.
//!
//! # Retries
//!
//! Failed attempts are retried with exponential back-off and full jitter, honoring
//! `Retry-After`. All attempts of a call share one deadline, 30 seconds by default; an attempt
//! may take all the time that is left, unless
//! [`attempt_timeout`](EmailClientBuilder::attempt_timeout) is set.
//!
//! A 429 with `Retry-After` holds back this client and its clones: their calls with the same key to
//! the same operation wait until the pause is over, at most
//! [`max_retry_after`](EmailClientBuilder::max_retry_after), and then start at random times. Such a
//! retry does not count towards the number of retries; only the deadline limits it. To send much,
//! allow a long `timeout` and pass many calls to the client at once, with `call.into_future()` where
//! a future is expected, as by `join_all` and `buffer_unordered`. For a known limit, set
//! [`max_per_second`](EmailClientBuilder::max_per_second).
//!
//! An [idempotent](Operation::is_idempotent) operation has the same effect whether it is
//! performed once or twice. It is retried after every transient failure. Any other
//! operation, such as sending an email, is retried only if the previous attempt was
//! certainly not processed: no connection was established, or the service responded with 429.
//! If the service honors idempotency keys, say so with
//! [`service_honors_idempotency_key`](EmailClientBuilder::service_honors_idempotency_key): then every
//! send has a key, and is retried, too.
//! Dropping the future of a call stops its retries; a request that was already sent may still
//! be processed.
//!
//! # Errors
//!
//! Every failure is an [`Error`] with a [`kind`](Error::kind) to match on, the operation,
//! the required scope, the service's error code and message, and the request id.
//! [`Error::outcome`] tells whether the service may have processed the request. `Display`
//! and `Debug` never contain an API key or the content of a request, except for the recipient
//! that a [`RecipientGuard`] refuses.
//!
//! # Staging systems
//!
//! [`RecipientGuard`] limits who gets emails: a list of allowed addresses and domains, one
//! address that all emails go to instead, and a number of recipients. `EmailClient::from_env`
//! reads it from the environment; on a builder, it is set with
//! [`recipient_guard`](ClientBuilder::recipient_guard) or
//! [`recipient_guard_from_env`](ClientBuilder::recipient_guard_from_env).
//!
//! # Undocumented details of the services
//!
//! Where the service's reference leaves a detail open, this crate accepts every plausible
//! response: bare or wrapped lists, missing or additional fields, errors in any common
//! format. Fields that a type does not model are kept, see [`Extra`]. What a client cannot
//! find in a response, such as the header that carries the key or the shape of a batch body, is
//! set by a [`Dialect`]. The open points are listed in
//! [the book](https://github.com/svc-tools/svc/blob/main/docs/undocumented/README.md).
//!
//! # Logging, metrics and custom HTTP clients
//!
//! [`on_attempt`](EmailClientBuilder::on_attempt) registers a callback that runs after every
//! attempt, and the feature `tracing` adds a span to each.
//! [`header_hook`](EmailClientBuilder::header_hook) changes the headers of each.
//! [`configure_http`](EmailClientBuilder::configure_http) sets options of the HTTP client, and
//! [`http_client`](EmailClientBuilder::http_client) replaces it. Proxies come from the
//! environment (`HTTPS_PROXY` and so on) unless the builder sets one.
//!
//! # Runtimes
//!
//! Calls need a tokio runtime; `Call::block` (feature `blocking`) brings its own. One client
//! may be used in several runtimes, such as a static client in `#[tokio::test]` functions:
//! it keeps the connections of each runtime apart. Pauses are shared by all of them.
//!
//! # Testing your code
//!
//! For a unit test without a server, every response and error can be created:
//! [`Error::from_response`], [`Error::new`], [`List::from`], [`Response::new`], and the
//! `Default` and `Deserialize` implementations of the resources.
//!
//! The crate `svc-reference-server` runs both services on the local machine. A test can
//! start its own instance, in memory and on a free port, within milliseconds. Add the crate
//! to your `dev-dependencies` and copy this into `tests/`:
//!
//! ```ignore
//! use svc_reference_server::Server;
//! use svc_sdk::EmailClient;
//! use svc_sdk::email::{Email, EmailStatus};
//!
//! #[tokio::test]
//! async fn welcomes_a_new_user() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start().await?;
//!     let client = EmailClient::builder(server.base_url(), "mk_test_sandbox").build()?;
//!
//!     // Replace these two lines with your own code that sends an email.
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
//! A recipient such as `bounced+1@example.test` makes the email bounce.
//! `server.tenant("First")` creates an organization with its own keys and data.
//!
//! # Cargo features
//!
//! | feature | |
//! |---|---|
//! | `rustls` (default) | TLS as reqwest has it by default: rustls on aws-lc-rs, and the platform's certificates. Changes nothing for a program whose own rustls or reqwest has its defaults. |
//! | `rustls-ring` | TLS with rustls on ring, which this crate's clients then use even beside `rustls`. For others in the program: a plain-http `reqwest::Client::new()` finds no provider and panics, and a rustls with its defaults finds two. So call `rustls::crypto::ring::default_provider().install_default()` first in `main`. |
//! | `native-tls` | TLS with the platform's library (OpenSSL on Linux). Used if no rustls is enabled, or if selected on the builder. Changes nothing for rustls. |
//! | `blocking` | `Call::block` for programs without an async runtime. |
//! | `tracing` | A span per attempt with OpenTelemetry's attribute names. |
//!
//! No crate of ours installs a provider for the process. Without a TLS feature, `https` works with a
//! client of your own ([`http_client`](EmailClientBuilder::http_client)), or if your `reqwest` has
//! TLS; otherwise the call says so.
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bounds;
mod client;
mod decode;
mod dialect;
pub mod email;
mod engine;
mod error;
pub mod extraction;
mod fields;
mod list;
mod names;
mod operation;
mod pages;
mod scope;
mod secret;
mod verdict;
mod webhook;
mod words;

pub use decode::Extra;
pub use dialect::{Choice, Dialect, InvalidDialect, Point};
pub use email::client::{EmailClient, EmailClientBuilder};
pub use engine::{
    Attempt, Call, ClientBuilder, Deleted, Pause, PollResult, RawResponse, RecipientGuard,
    RequestPreview, Response, Wait,
};
pub use error::{Error, ErrorKind, FieldProblem, InvalidInput, Outcome};
pub use extraction::client::{ExtractionClient, ExtractionClientBuilder};
pub use http::{Method, StatusCode};
pub use list::List;
pub use operation::{Operation, ScopeRule, Service};
pub use pages::ListStream;
pub use scope::{Scope, UnknownScope};
pub use secret::Secret;
pub use webhook::{Event, NewWebhook};
/// The HTTP crates whose types are part of this API.
pub use {http, reqwest};
