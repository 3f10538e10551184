//! What crosses the crates.

#[cfg(unix)]
mod bulk;
#[cfg(unix)]
mod bulk_queue;
mod contract;
mod crash;
mod deliveries;
mod docs;
mod process;
mod receiver;
mod sdk_and_server;
mod structure;
mod world;
