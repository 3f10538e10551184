//! An application with an older rusqlite accepts a delivery in its own transaction.

use rusqlite::Connection;
use webhook_inbox::{BoxError, Inbox, Sqlite};
use webhook_verify::Delivery;

pub fn receive(
    inbox: &Inbox<Sqlite>,
    connection: &mut Connection,
    delivery: &Delivery,
) -> Result<(), BoxError> {
    let tx = connection.transaction()?;
    inbox.accept_in(&tx, delivery)?;
    tx.commit()?;
    Ok(())
}
