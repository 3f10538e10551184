//! Seed data of a new database, and resetting an organization or the whole server
//! (`docs/control-interface.md#seeds`).

pub(crate) mod export;
pub(crate) mod file;

use std::sync::Arc;

use svc_sdk::Service;

use crate::api::control::dns::{publish_records, update_zone};
use crate::api::email::domains::insert;
use crate::app::App;
use crate::control::keys::{KeyMode, KeyService};
use crate::control::notifications::{Notification, ResetReason};
use crate::control::organizations::MAX_NAME_LENGTH;
use crate::control::seed_file::SeedKey;
use crate::mail::dkim::SANDBOX_KEY;
use crate::model::dns::RecordKind;
use crate::model::error::ApiError;
use crate::model::scope::all_scopes;
use crate::runtime::clock;
use crate::settings::Settings;
use crate::store::domains::{self, Domain, Flags};
use crate::store::organizations::{self, SANDBOX};
use crate::store::{Tx, keys};

const DELETED: Notification = Notification::Reset { reason: ResetReason::Deleted };

const DOMAIN: &str = "sandbox.test";

/// Creates the seed data.
pub(crate) fn create(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    let organization = organizations::insert(tx, Some(SANDBOX), 0)?.number;
    add_missing_keys(tx, app, organization)?;
    seed_domain(tx, organization)
}

/// Adds the seeded keys of this start to the seeded organization, if there is one without them.
pub(crate) fn add_keys(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    match organizations::oldest_named(tx.reader(), SANDBOX)? {
        Some(organization) => add_missing_keys(tx, app, organization),
        None => Ok(()),
    }
}

fn add_missing_keys(tx: &mut Tx<'_>, app: &Arc<App>, organization: i64) -> Result<(), ApiError> {
    for SeedKey { key, service, .. } in seeded_keys(&app.settings) {
        if keys::find(tx.reader(), &key)?.is_none() {
            add_key(tx, organization, service.service(), &key)?;
        }
    }
    Ok(())
}

/// The keys of the seeded organization.
fn seeded_keys(settings: &Settings) -> [SeedKey; 2] {
    let (email, extraction) = (&settings.email_key, &settings.extraction_key);
    [(KeyService::Email, email), (KeyService::Extraction, extraction)].map(|(service, key)| {
        SeedKey { key: key.expose().to_owned(), service, scopes: None, mode: None }
    })
}

/// Adds a key with all scopes.
pub(crate) fn add_key(
    tx: &mut Tx<'_>,
    organization: i64,
    service: Service,
    secret: &str,
) -> Result<(), ApiError> {
    keys::create(tx, secret, organization, service, all_scopes(service), KeyMode::Test).map(drop)
}

/// Deletes all data of one organization except its keys, so that a test can continue
/// to use them.
pub(crate) fn reset_organization(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
) -> Result<(), ApiError> {
    organizations::delete_data(tx, organization)?;
    let context = Arc::clone(app);
    tx.after_commit(move || {
        context.requests.clear(Some(organization));
    });
    tx.publish(Some(organization), || DELETED);
    let name = organizations::get(tx.reader(), organization)?.name;
    if organizations::oldest_named(tx.reader(), &name)? == Some(organization) {
        if name == SANDBOX && app.settings.seed {
            keys::delete_all(tx, organization)?;
            add_missing_keys(tx, app, organization)?;
            seed_domain(tx, organization)?;
        }
        apply_file(tx, app, Some(&name))?;
    }
    update_zone(tx, &app.zone)
}

/// Deletes all data of the server and creates the seed data again.
pub(crate) fn reset_server(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    // Before anything is scheduled: the clock is about to be that of the system again.
    tx.now = clock::system();
    organizations::delete_all(tx)?;
    // Clear the copies in memory only after the commit: it may fail on a full disk.
    let context = Arc::clone(app);
    tx.after_commit(move || {
        context.clock.restart();
        context.requests.clear(None);
    });
    tx.publish(None, || DELETED);
    if app.settings.seed {
        create(tx, app)?;
    }
    apply_file(tx, app, None)?;
    update_zone(tx, &app.zone)
}

/// Applies the seed file again, in which the start found no mistake.
fn apply_file(tx: &mut Tx<'_>, app: &Arc<App>, only: Option<&str>) -> Result<(), ApiError> {
    let Some(seed) = &app.settings.seed_file else { return Ok(()) };
    file::apply(tx, app, seed, only).map_err(|error| match seed.mistake(&error) {
        Some(mistake) => ApiError::internal(format!("the seed file: {mistake}")),
        None => error,
    })
}

/// Creates the seeded domain: its records are published, and it is verified.
fn seed_domain(tx: &Tx<'_>, organization: i64) -> Result<(), ApiError> {
    let mut domain = insert(tx, organization, DOMAIN, Some("sandbox"), SANDBOX_KEY)?;
    verify_domain(tx, organization, &mut domain)
}

/// Stores the records of a domain, and marks it as verified.
fn verify_domain(tx: &Tx<'_>, organization: i64, domain: &mut Domain) -> Result<(), ApiError> {
    let flags = Flags {
        mx_verified: true,
        spf_verified: true,
        dkim_verified: true,
        dmarc_verified: true,
        verified: true,
    };
    domains::set_flags(tx, organization, domain, flags)?;
    publish_records(tx, organization, domain, &RecordKind::ALL)
}

/// Returns an error if this cannot be the name of an organization.
pub(crate) fn check_name(name: &str) -> Result<(), ApiError> {
    let length = name.chars().count();
    if (1..=MAX_NAME_LENGTH).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("must have 1 to {MAX_NAME_LENGTH} characters and no control characters");
    Err(ApiError::field("name", message))
}
