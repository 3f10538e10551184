#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Without a database, nothing can create an inbox.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "there is no database")
)]

mod backoff;
mod database;
mod dead_letters;
mod error;
mod inbox;
mod job;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod worker;

pub use database::Database;
pub use dead_letters::{DeadLetter, DeadLetters};
pub use error::{BoxError, Error, ErrorKind};
pub use inbox::{Accepted, Inbox};
pub use job::Job;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use worker::Worker;
