//! What the server knows: addresses, statuses, events, ids, times and errors. No I/O.

pub(crate) mod address;
pub(crate) mod addresses;
pub(crate) mod clock;
pub(crate) mod compatibility;
pub(crate) mod dns;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod event_log;
pub(crate) mod heavy;
pub(crate) mod id;
pub(crate) mod job;
pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod redact;
pub(crate) mod request_log;
pub(crate) mod schema;
pub(crate) mod scope;
pub(crate) mod seed_file;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod time;
pub(crate) mod timestamp;
pub(crate) mod tracking;
