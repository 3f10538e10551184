//! Integration tests: the client against mock servers with hand-written responses.
#![expect(clippy::unwrap_used, reason = "a test may panic to fail")]

mod audiences;
#[cfg(feature = "bulk")]
mod bulk;
mod clock;
mod contacts;
mod documentation;
mod domains;
mod emails;
mod errors;
mod extraction;
mod false_success;
#[cfg(feature = "_rustls")]
mod faults;
#[cfg(all(feature = "http2", feature = "_rustls"))]
mod http2;
mod integrations;
#[cfg(feature = "tower")]
mod layers;
mod mock_server;
mod pacing;
#[cfg(feature = "_rustls")]
mod proxies;
mod recipient_guard;
mod requests;
mod retries;
mod runtimes;
mod streaming;
#[cfg(any(feature = "native-tls", feature = "_rustls"))]
mod tls;
mod tolerance;
mod types;
mod waiting;
mod webhooks;
