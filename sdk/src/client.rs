//! The HTTP clients: turn an operation into a request, send it, and decode the response.

pub(crate) mod attempt;
#[cfg(feature = "blocking")]
pub(crate) mod blocking;
pub(crate) mod body;
pub(crate) mod builder;
pub(crate) mod call;
mod connections;
pub(crate) mod environment;
pub(crate) mod guard;
pub(crate) mod observer;
mod path;
pub(crate) mod payload;
pub(crate) mod preview;
pub(crate) mod raw;
pub(crate) mod response;
mod send;
pub(crate) mod shared;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
pub(crate) mod wait;
