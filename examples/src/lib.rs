//! Small programs to copy: `src/bin/`, and for tests `tests/it/against_the_server.rs`.
//!
//! The project's README is compiled here, so that its example stays true.
#![doc = include_str!("../../README.md")]
