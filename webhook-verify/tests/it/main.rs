//! The public API, used as a receiver uses it.
#![expect(clippy::unwrap_used, reason = "a test says what it means by failing")]

#[cfg(feature = "diagnose")]
mod diagnose;
mod grammar;
mod rotation;
mod verify;
