//! What is there from the first start on, and how all else is emptied
//! (`control.md`, Seeds).

use std::sync::Arc;

use crate::app::App;
use crate::control::organizations::{self, SANDBOX};
use crate::email::domains;
use crate::error::ApiError;
use crate::store::Tx;

const EMAIL_KEY: &str = "mk_test_sandbox";
const EXTRACTION_KEY: &str = "sk_test_sandbox";
const DOMAIN: &str = "sandbox.test";

/// Tables that hold an organization's things, and how its rows are found.
const OWNED: &[(&str, &str)] = &[
    ("email_content", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("email_attachment", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("due", "kind = 1 AND ref IN (SELECT id FROM email WHERE organization = ?1)"),
    ("due", "kind = 2 AND substr(ref, 1, 40) IN (SELECT id FROM email WHERE organization = ?1)"),
    ("relay", "organization = ?1"),
    ("homecoming", "organization = ?1"),
    ("fault_met", "fault IN (SELECT id FROM fault WHERE organization = ?1)"),
    ("fault", "organization = ?1"),
    ("email", "organization = ?1"),
    ("message_source", "message IN (SELECT id FROM message WHERE organization = ?1)"),
    ("message", "organization = ?1"),
    ("attempt", "delivery IN (SELECT id FROM delivery WHERE organization = ?1)"),
    ("delivery_body", "delivery IN (SELECT id FROM delivery WHERE organization = ?1)"),
    ("delivery", "organization = ?1"),
    ("webhook", "organization = ?1"),
    ("contact", "organization = ?1"),
    ("audience", "organization = ?1"),
    ("dns_record", "organization = ?1"),
    ("domain", "organization = ?1"),
    ("template", "organization = ?1"),
    ("idempotency", "organization = ?1"),
];

/// Puts the seeds in place at the first start.
pub(crate) fn plant(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    let organization = organizations::insert(tx, Some(SANDBOX), 0)?.seq;
    fill(tx, app, organization)
}

fn fill(tx: &mut Tx<'_>, app: &Arc<App>, organization: i64) -> Result<(), ApiError> {
    tx.execute("DELETE FROM api_key WHERE organization = ?1", [organization])?;
    let (email_key, extraction_key) = (EMAIL_KEY.to_owned(), EXTRACTION_KEY.to_owned());
    organizations::all_keys(tx, &app.keys, organization, email_key, extraction_key)?;
    domains::seed(tx, app, organization, DOMAIN)
}

/// Empties one organization. Its keys stay, so that a test can go on with them.
pub(crate) fn empty(tx: &mut Tx<'_>, app: &Arc<App>, organization: i64) -> Result<(), ApiError> {
    for (table, rows) in OWNED {
        tx.execute(&format!("DELETE FROM {table} WHERE {rows}"), [organization])?;
    }
    let name: String = tx.connection().query_row(
        "SELECT name FROM organization WHERE seq = ?1",
        [organization],
        |row| row.get(0),
    )?;
    if name == SANDBOX && app.settings.seed {
        fill(tx, app, organization)?;
    }
    reload(tx, app)
}

/// Empties all of the server and puts the seeds back.
pub(crate) fn reset(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    for (table, _) in OWNED {
        // Without a condition SQLite drops all rows at once.
        tx.execute(&format!("DELETE FROM {table}"), [])?;
    }
    tx.execute("DELETE FROM api_key", [])?;
    tx.execute("DELETE FROM organization", [])?;
    tx.execute("DELETE FROM meta WHERE key = 'clock'", [])?;
    app.clock.restart();
    tx.now = app.clock.now();
    if app.settings.seed {
        plant(tx, app)?;
    }
    reload(tx, app)
}

/// Makes what is kept in memory equal to the database again.
fn reload(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    app.keys.load(tx.connection())?;
    app.webhooks.load(tx.connection())?;
    app.faults.load(tx.connection())?;
    domains::load_zone(tx.connection(), app)
}
