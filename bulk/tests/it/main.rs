//! Sends against mock services.
#![expect(clippy::unwrap_used, reason = "a test may panic to fail")]

mod databases;
mod mock_server;
mod model;
mod outages;
mod sends;
#[expect(dead_code, reason = "tests of another crate use more of it")]
#[path = "../../../webhook-inbox/tests/it/server.rs"]
mod server;
