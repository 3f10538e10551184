//! What the server knows: addresses, statuses, ids, times and errors. No I/O.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod compatibility;
pub(crate) mod error;
pub(crate) mod id;
pub(crate) mod metrics;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod time;
