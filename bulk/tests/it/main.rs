//! Jobs against mock servers.
#![expect(clippy::unwrap_used, reason = "a test may panic to fail")]

mod clock;
mod jobs;
mod kills;
mod mock_server;
