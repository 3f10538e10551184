//! The public API, used as a receiver uses it.
#![expect(clippy::unwrap_used, reason = "a test says what it means by failing")]

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "dedup")]
mod dedup;
#[cfg(feature = "diagnose")]
mod diagnose;
mod grammar;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "lambda")]
mod lambda;
#[cfg(feature = "redis")]
mod redis;
mod rotation;
#[cfg(feature = "tower")]
mod tower;
mod verify;
