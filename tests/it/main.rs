//! What crosses the crates.

#[cfg(unix)]
mod bulk;
#[cfg(target_os = "linux")]
mod containers;
mod contract;
mod crash;
mod deliveries;
mod dialect;
mod docs;
mod imports;
#[cfg(unix)]
mod live;
mod process;
mod readme_examples;
mod receiver;
mod recipient_guard;
mod sdk_and_server;
mod structure;
mod world;
