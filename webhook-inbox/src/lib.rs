#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Without a database, nothing can create an inbox.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "sqlx")),
    expect(dead_code, reason = "there is no database")
)]

mod claims;
mod database;
mod error;
mod inbox;
mod job;
#[cfg(feature = "metrics")]
mod metrics;
mod operations;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod simple_query;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlx")]
mod sqlx_connection;
#[cfg(feature = "sqlx")]
mod sqlx_postgres;
mod turns;
mod worker;

#[cfg(feature = "postgres")]
pub use deadpool_postgres;
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "sqlx")]
pub use sqlx;

pub use database::Database;
pub use error::{BoxError, Failed};
pub use inbox::{Accepted, Inbox};
pub use job::{DeadLetter, Job};
pub use operations::{Backlog, Select};
#[cfg(any(feature = "postgres", feature = "sqlx"))]
pub use simple_query::Isolation;
#[cfg(feature = "sqlite")]
pub use svc_sql::sqlite::Sqlite;
pub use svc_sql::{Error, ErrorKind};
pub use worker::Worker;
