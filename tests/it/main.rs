//! What crosses the crates.

mod contract;
