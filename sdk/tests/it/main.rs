//! Integration tests: the client against mock servers with hand-written responses.
#![expect(clippy::unwrap_used, reason = "a test may panic to fail")]

mod audiences;
mod clock;
mod contacts;
mod documentation;
mod domains;
mod emails;
mod errors;
mod extraction;
mod false_success;
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
mod faults;
mod guesses;
mod integrations;
mod mock_server;
mod pacing;
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
mod proxies;
mod recipient_guard;
mod requests;
mod retries;
mod runtimes;
mod streaming;
#[cfg(any(feature = "native-tls", feature = "rustls", feature = "rustls-ring"))]
mod tls;
mod tolerance;
mod types;
mod waiting;
mod webhooks;
