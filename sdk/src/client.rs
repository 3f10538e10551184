//! The HTTP clients: turn an operation into a request, send it, and decode the response.

pub(crate) mod attempt;
#[cfg(feature = "blocking")]
mod blocking;
mod body;
pub(crate) mod builder;
pub(crate) mod call;
pub(crate) mod clients;
mod connections;
pub(crate) mod guard;
pub(crate) mod observer;
mod path;
pub(crate) mod payload;
pub(crate) mod preview;
mod raw;
pub(crate) mod response;
mod send;
pub(crate) mod shared;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
pub(crate) mod wait;
