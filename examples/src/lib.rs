//! Example programs: `src/bin/`, and `tests/it/against_the_server.rs` for tests.
//!
//! This crate also compiles the examples in the READMEs of the project and of the
//! reference server as doc tests.
#![doc = include_str!("../../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../reference-server/README.md")]
struct ReferenceServer;
