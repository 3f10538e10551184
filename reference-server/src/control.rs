//! The control interface as its clients see it (`docs/control-interface.md`): the requests with
//! their types, and the typed client that sends them. Each file has those of one resource:
//!
//! - an [`Endpoint`](endpoint::Endpoint) for each request, from which follow the route, its
//!   OpenAPI description and the call of the client; `api/control/` has the handlers;
//! - the types of the query, of the body and of the response;
//! - the methods of the [`Client`](client::Client).
//!
//! Nothing here needs the server, so that a program can use the client alone.

pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod deliveries;
pub(crate) mod domains;
pub(crate) mod emails;
pub(crate) mod endpoint;
pub(crate) mod extractions;
pub(crate) mod faults;
pub(crate) mod inbound;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod notifications;
pub(crate) mod organizations;
#[cfg(feature = "server")]
pub(crate) mod query;
pub(crate) mod requests;
#[cfg(feature = "server")]
pub(crate) mod seed_file;
pub(crate) mod server;
pub(crate) mod templates;
pub(crate) mod webhooks;
