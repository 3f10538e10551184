//! What crosses the crates.

mod contract;
mod crash;
mod deliveries;
mod docs;
mod process;
mod receiver;
mod sdk_and_server;
mod structure;
mod world;
