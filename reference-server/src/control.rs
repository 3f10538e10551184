//! How a request to the control interface is declared, and the typed client that sends it. Each
//! resource declares its requests in its `…_wire` module:
//!
//! - an [`Endpoint`](endpoint::Endpoint) for each request, from which follow the route, its
//!   OpenAPI description and the call of the client;
//! - the types of the query, of the body and of the response;
//! - the methods of the [`Client`](client::Client), which `requests!` writes for requests without query and
//!   body.
//!
//! Nothing here, and nothing in these modules, needs the server: a program can use the client alone.

pub(crate) mod client;
pub(crate) mod endpoint;
#[cfg(feature = "server")]
pub(crate) mod query;

pub(crate) use client::{Client, Error, Request, requests};
pub(crate) use endpoint::{ACCEPTED, CREATED, Cursor, DELETE, Endpoint, GET, POST, PUT, Page};
#[cfg(feature = "server")]
pub(crate) use endpoint::{Declaration, NoQuery, Subject, is_nothing};
