//! The sandbox: an embeddable local server that implements the email service and the
//! extraction service.
//!
//! Use it in tests, or run it while you develop: it implements every documented
//! operation, with API keys and scopes, validation, a SQLite database, DNS,
//! DKIM-signed mail, signed webhooks with retries, and a clock that you can
//! freeze and advance. By default nothing leaves the machine.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use svc_reference_server::Server;
//!
//! // In memory, on a free loopback port, with seed data.
//! let server = Server::start().await?;
//! println!("{}/api/v1/emails with the key mk_test_sandbox", server.base_url());
//!
//! // Tests that share a server use one organization each: an organization
//! // cannot see the resources of another.
//! let tenant = server.tenant("Lovelace").await?;
//! println!("a key: {}", tenant.organization.email_key);
//!
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # What you get
//!
//! - **Both services on one port.** The email service under `/api/v1`, the
//!   extraction service under `/v1`. `/openapi.json` describes them.
//! - **Seed data.** The organization `Sandbox` with the keys `mk_test_sandbox`
//!   (email) and `sk_test_sandbox` (extraction), and the verified domain
//!   `sandbox.test`. A server with [`Network::Public`] has none.
//! - **A control interface** under `/_sandbox/` for everything that a test needs
//!   and the services do not offer: read delivered messages, advance the clock,
//!   inject faults, inspect and replay webhook deliveries. [`Server::client`] returns a
//!   typed client of it. See
//!   <https://github.com/svc-tools/svc/blob/main/docs/control-interface.md>.
//! - **Durability.** A 2xx response means that the data is on disk, or in memory
//!   for an in-memory server.
//!
//! [`Server::builder`] has the options: a data directory, other addresses, an SMTP
//! relay, a seed file, limits.
//!
//! # Signing keys
//!
//! Domains under `.test`, `.example`, `.invalid` and `.localhost` share a ready DKIM key, which is
//! public knowledge. For any other domain, and with [`Network::Public`], the server generates one,
//! which takes seconds in a debug build.
#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "server"),
    expect(dead_code, reason = "only the server uses all of it")
)]

pub mod client;
mod control;
#[macro_use]
mod model;

// The resources.

mod audiences;
mod clock;
mod contacts;
mod deliveries;
mod domains;
mod emails;
mod extractions;
mod faults;
mod inbound;
mod keys;
mod messages;
mod notifications;
mod organizations;
#[cfg(feature = "server")]
mod relaying;
mod requests;
#[cfg(feature = "server")]
mod retention;
mod sandbox;
#[cfg(feature = "server")]
mod seeds;
mod templates;
#[cfg(feature = "server")]
mod tracking;
mod webhooks;

// The platform beneath them, and what is built of both.

#[cfg(feature = "server")]
mod app;
#[cfg(feature = "server")]
mod engine;
#[cfg(feature = "server")]
mod http;
#[cfg(feature = "server")]
mod jobs;
#[cfg(feature = "server")]
mod mail;
#[cfg(feature = "server")]
mod net;
#[cfg(feature = "server")]
mod routes;
#[cfg(feature = "server")]
mod runtime;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod settings;
#[cfg(feature = "server")]
mod smtp;
#[cfg(feature = "server")]
mod store;

pub use organizations::organization_wire::Organization;
#[cfg(feature = "server")]
#[doc(hidden)]
pub use settings::Limits;
#[cfg(feature = "server")]
pub use {
    mail::relay::{InvalidRelay, InvalidRelayTo},
    model::addresses::Addresses,
    model::network::Network,
    net::certificate::InvalidCertificate,
    seeds::seed_file::InvalidSeed,
    server::{Builder, InvalidUrl, Server, StartError},
    store::data_dir::{RunningServer, find_running},
};
