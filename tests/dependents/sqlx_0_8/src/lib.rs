//! An application with sqlx and sea-orm shares its pool with the inbox.

use sea_orm::DatabaseConnection;
use sqlx::PgPool;
use webhook_inbox::{Inbox, Sqlite};

pub fn with_sqlx(pool: PgPool) -> Inbox<PgPool> {
    Inbox::new(pool)
}

pub fn with_sea_orm(connection: &DatabaseConnection) -> Inbox<PgPool> {
    Inbox::new(connection.get_postgres_connection_pool().clone())
}

pub fn in_sqlite(file: &str) -> Result<Inbox<Sqlite>, webhook_inbox::Error> {
    Inbox::sqlite(file)
}
