//! Both services on one machine: a local server to build and test against.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use svc_reference_server::Server;
//!
//! let server = Server::start().await?;
//! println!("{}/api/v1/emails with the key mk_test_sandbox", server.base_url());
//! let own = server.create_organization("Lovelace").await?;
//! println!("{} sees nothing of the others", own.name);
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! A 2xx answer means that it is on disk (or in memory, where that was asked
//! for); the clock, the DNS zone and much else can be controlled under
//! `/_sandbox/`.
//!
//! A domain gets a new 2048-bit RSA key, which takes an unoptimised build more
//! than half a minute to make (the seeded `sandbox.test` has its key already).
//! If your tests create domains, have that one thing optimised in your
//! `Cargo.toml`:
//!
//! ```toml
//! [profile.dev.package.rsa]
//! opt-level = 3
//! [profile.dev.package.num-bigint-dig]
//! opt-level = 3
//! ```
#![warn(missing_docs)]

mod address;
mod app;
mod clock;
mod control;
mod dkim;
mod dns;
mod email;
mod engine;
mod error;
mod extraction;
mod faults;
mod home;
mod id;
mod inbound;
mod keys;
mod links;
mod metrics;
mod mime;
mod openapi;
mod organization;
mod outbound;
mod relay;
mod seed;
mod server;
mod settings;
mod smtp;
mod store;
mod switches;
mod template;
mod time;
mod tls;
mod tracking;
mod web;
mod webhooks;

pub use app::Addresses;
pub use home::{Running, running};
pub use organization::{NotStored, Organization};
pub use relay::InvalidRelay;
pub use server::{Builder, Server, StartError};
pub use smtp::InvalidCertificate;
pub use switches::InvalidSwitch;
