//! The database layer of `svc-bulk` and `svc-webhook-inbox`: each statement is written once, in
//! PostgreSQL's SQL, and runs on SQLite, too. A part of these crates: its API may change with each
//! version.
//!
//! In a statement, `$1`, `$2` and so on are its parameters, `now_ms()` is the clock of the database in
//! milliseconds since 1970, and `encode(body, 'hex')` is how bytes are returned.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod literals;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod value;

pub use error::{Error, ErrorKind};
pub use literals::{Borrowed, single, with_literals};
pub use value::{Row, Value, read};
