//! The public API, used as a receiver uses it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod dedup;
mod logged;
mod receivers;
mod redis;
mod sockets;
mod verify;
