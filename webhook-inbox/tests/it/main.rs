//! The public API, used as a receiver uses it: with SQLite, and with a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod accept;
mod crashes;
mod dead_letters;
mod logged;
mod outages;
mod postgres;
mod postgres_sessions;
#[path = "../../../webhook-verify/tests/it/readme.rs"]
mod readme;
mod readme_sql;
mod sqlite;
mod support;
mod worker;
