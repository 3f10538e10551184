//! What crosses the crates.

mod contract;
mod deliveries;
mod receiver;
mod sdk_and_server;
mod structure;
mod world;
