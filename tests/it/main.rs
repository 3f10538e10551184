//! What crosses the crates.

mod contract;
mod structure;
