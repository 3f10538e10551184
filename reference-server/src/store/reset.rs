//! Deletes all data of an organization, or of the server.

use crate::model::error::ApiError;
use crate::store::{Tx, bodies, meta};

/// The tables with data of organizations, each with the condition that selects the
/// rows of organization `?1`. Ordered so that dependent rows are deleted first.
pub(super) const OWNED: &[(&str, &str)] = &[
    ("email_content", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("email_link", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("email_attachment", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("due", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("relay", "organization = ?1"),
    ("local_delivery", "organization = ?1"),
    ("fault_hit", "fault IN (SELECT id FROM fault WHERE organization = ?1)"),
    ("fault", "organization = ?1"),
    ("email", "organization = ?1"),
    ("message_source", "message IN (SELECT id FROM message WHERE organization = ?1)"),
    ("message", "organization = ?1"),
    ("attempt", "delivery IN (SELECT id FROM delivery WHERE organization = ?1)"),
    ("delivery_body", "delivery IN (SELECT id FROM delivery WHERE organization = ?1)"),
    ("delivery", "organization = ?1"),
    ("pending_event", "organization = ?1"),
    ("webhook", "organization = ?1"),
    ("contact", "organization = ?1"),
    ("audience", "organization = ?1"),
    ("dns_record", "organization = ?1"),
    ("domain", "organization = ?1"),
    ("template", "organization = ?1"),
    ("idempotency", "organization = ?1"),
];

/// Deletes the data of one organization except its keys.
pub(crate) fn organization(tx: &Tx<'_>, organization: i64) -> Result<(), ApiError> {
    for (table, rows) in OWNED {
        tx.execute(&format!("DELETE FROM {table} WHERE {rows}"), [organization])?;
    }
    bodies::delete_unused(tx)
}

/// Deletes the data of all organizations, the organizations and their keys, and the state
/// of the clock.
pub(crate) fn server(tx: &Tx<'_>) -> Result<(), ApiError> {
    for (table, _) in OWNED {
        // Without a condition, SQLite truncates the table instead of deleting row by row.
        tx.execute(&format!("DELETE FROM {table}"), [])?;
    }
    tx.execute("DELETE FROM body", [])?;
    tx.execute("DELETE FROM crash", [])?;
    tx.execute("DELETE FROM api_key", [])?;
    tx.execute("DELETE FROM organization", [])?;
    meta::delete_clock(tx)?;
    Ok(())
}
