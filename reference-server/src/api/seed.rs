//! Seed data of a new database, and resetting an organization or the whole server
//! (`docs/control-interface.md#seeds`).

use std::sync::Arc;

use crate::api::app::App;
use crate::api::control::organizations::{self, SANDBOX};
use crate::api::email::domains;
use crate::model::clock;
use crate::model::error::ApiError;
use crate::store::Tx;

const EMAIL_KEY: &str = "mk_test_sandbox";
const EXTRACTION_KEY: &str = "sk_test_sandbox";
/// The seeded keys, which are public knowledge.
pub(crate) const KEYS: [&str; 2] = [EMAIL_KEY, EXTRACTION_KEY];

const DOMAIN: &str = "sandbox.test";

/// The tables with data of organizations, each with the condition that selects the
/// rows of organization `?1`. Ordered so that dependent rows are deleted first.
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

/// Creates the seed data.
pub(crate) fn create(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    let organization = organizations::insert(tx, Some(SANDBOX), 0)?.seq;
    create_keys_and_domain(tx, app, organization)
}

fn create_keys_and_domain(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
) -> Result<(), ApiError> {
    tx.execute("DELETE FROM api_key WHERE organization = ?1", [organization])?;
    let keys = Arc::clone(&app.keys);
    tx.after_commit(move || keys.remove_organization(organization));
    let (email_key, extraction_key) = (EMAIL_KEY.to_owned(), EXTRACTION_KEY.to_owned());
    organizations::insert_keys(tx, &app.keys, organization, email_key, extraction_key)?;
    domains::seed(tx, app, organization, DOMAIN)
}

/// Deletes all data of one organization except its keys, so that a test can continue
/// to use them.
pub(crate) fn reset_organization(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
) -> Result<(), ApiError> {
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
        context.faults.remove_organization(organization);
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
        create_keys_and_domain(tx, app, organization)?;
    }
    Ok(())
}

/// Deletes all data of the server and creates the seed data again.
pub(crate) fn reset_server(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    for (table, _) in OWNED {
        // Without a condition, SQLite truncates the table instead of deleting row by row.
        tx.execute(&format!("DELETE FROM {table}"), [])?;
    }
    tx.execute("DELETE FROM api_key", [])?;
    tx.execute("DELETE FROM organization", [])?;
    tx.execute("DELETE FROM meta WHERE key = 'clock'", [])?;
    tx.now = clock::system();
    // Clear the copies in memory only after the commit: it may fail on a full disk.
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
        create(tx, app)?;
    }
    Ok(())
}
