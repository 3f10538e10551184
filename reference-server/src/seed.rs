//! What is there from the first start on, and how all else is emptied
//! (`docs/control-interface.md#seeds`).

use std::sync::Arc;

use crate::app::App;
use crate::clock;
use crate::control::organizations::{self, SANDBOX};
use crate::email::domains;
use crate::error::ApiError;
use crate::store::Tx;

const EMAIL_KEY: &str = "mk_test_sandbox";
const EXTRACTION_KEY: &str = "sk_test_sandbox";
/// The keys that everybody knows.
pub(crate) const KEYS: [&str; 2] = [EMAIL_KEY, EXTRACTION_KEY];

const DOMAIN: &str = "sandbox.test";

/// Tables that hold an organization's things, and how its rows are found.
pub(crate) const OWNED: &[(&str, &str)] = &[
    ("email_content", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("email_attachment", "email IN (SELECT id FROM email WHERE organization = ?1)"),
    ("due", "kind = 1 AND ref IN (SELECT id FROM email WHERE organization = ?1)"),
    ("due", "kind = 2 AND substr(ref, 1, 40) IN (SELECT id FROM email WHERE organization = ?1)"),
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
    let keys = Arc::clone(&app.keys);
    tx.after_commit(move || keys.forget(organization));
    let (email_key, extraction_key) = (EMAIL_KEY.to_owned(), EXTRACTION_KEY.to_owned());
    organizations::all_keys(tx, &app.keys, organization, email_key, extraction_key)?;
    domains::seed(tx, app, organization, DOMAIN)
}

/// Empties one organization. Its keys stay, so that a test can go on with them.
pub(crate) fn empty(tx: &mut Tx<'_>, app: &Arc<App>, organization: i64) -> Result<(), ApiError> {
    let mut statement =
        tx.statement("SELECT DISTINCT owner FROM dns_record WHERE organization = ?1")?;
    let owners = statement.query_map([organization], |row| row.get::<_, String>(0))?;
    let owners = owners.collect::<rusqlite::Result<Vec<_>>>()?;
    for (table, rows) in OWNED {
        tx.execute(&format!("DELETE FROM {table} WHERE {rows}"), [organization])?;
    }
    let context = Arc::clone(app);
    tx.after_commit(move || {
        context.webhooks.remove_organization(organization);
        context.faults.forget(organization);
        for owner in owners {
            context.zone.withdraw(&owner, None);
        }
    });
    let name: String = tx.connection().query_row(
        "SELECT name FROM organization WHERE seq = ?1",
        [organization],
        |row| row.get(0),
    )?;
    if name == SANDBOX && app.settings.seed {
        fill(tx, app, organization)?;
    }
    Ok(())
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
    tx.now = clock::system();
    // What is in memory goes when the rows have gone: a full disk may keep them.
    let context = Arc::clone(app);
    tx.after_commit(move || {
        context.clock.restart();
        context.keys.clear();
        context.webhooks.clear();
        context.faults.clear();
        context.verified.clear();
        context.zone.clear();
    });
    if app.settings.seed {
        plant(tx, app)?;
    }
    Ok(())
}
