//! The client against peers that answer what the documents say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod api;
mod audiences;
mod clock;
mod contacts;
mod domains;
mod emails;
mod errors;
mod extraction;
#[cfg(feature = "rustls")]
mod faults;
mod hooks;
#[cfg(all(feature = "http2", feature = "rustls"))]
mod http2;
#[cfg(feature = "tower")]
mod layers;
mod peer;
#[cfg(feature = "rustls")]
mod proxies;
mod requests;
mod retries;
mod streaming;
#[cfg(any(feature = "native-tls", feature = "rustls"))]
mod tls;
mod tolerance;
mod waiting;
mod webhooks;
