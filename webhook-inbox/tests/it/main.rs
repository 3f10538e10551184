//! The public API, used as a receiver uses it: with SQLite, and with a real PostgreSQL.
//!
//! `accept`, `dead_letters`, `production` and `worker` are the same for each database. `sqlx-tests` runs them with
//! sqlx.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod accept;
mod crashes;
mod databases;
mod dead_letters;
mod logged;
mod outages;
mod postgres;
mod production;
mod proxy;
mod readme_sql;
mod server;
mod sqlite;
mod staged;
mod support;
mod worker;
