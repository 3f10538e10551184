//! Small programs to copy: `src/bin/`, and for tests `tests/it/against_the_server.rs`.
//!
//! The project's README is compiled here, so that its example stays true, and so
//! is the reference server's, whose example needs the SDK.
#![doc = include_str!("../../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../reference-server/README.md")]
struct ReferenceServer;
