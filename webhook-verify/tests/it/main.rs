//! The public API, used as a receiver uses it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod actix;
mod axum;
mod dedup;
mod detached;
mod diagnose;
mod grammar;
mod http;
mod lambda;
mod logged;
mod peers;
mod readme;
mod redis;
mod redis_outage;
mod rotation;
mod sockets;
mod tenants;
mod tonic;
mod tower;
mod verify;
mod wasm;
