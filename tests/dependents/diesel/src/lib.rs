//! An application with diesel, whose database file the inbox uses, too.

use diesel::{Connection as _, ConnectionResult, SqliteConnection};
use webhook_inbox::{Inbox, Sqlite};

pub fn connect(file: &str) -> ConnectionResult<SqliteConnection> {
    SqliteConnection::establish(file)
}

pub fn inbox(file: &str) -> Result<Inbox<Sqlite>, webhook_inbox::Error> {
    Inbox::sqlite(file)
}
