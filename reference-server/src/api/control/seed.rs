//! Seed data of a new database, and resetting an organization or the whole server
//! (`docs/sandbox.md#seeds`).

pub(crate) mod export;
pub(crate) mod file;

use std::sync::Arc;

use svc_sdk::Secret;

use crate::api::control::dns::{publish_records, update_zone};
use crate::api::email::domains::SANDBOX_DOMAIN;
use crate::app::App;
use crate::control::keys::KeyService;
use crate::control::notifications::{Notification, ResetReason};
use crate::control::organizations::MAX_NAME_LENGTH;
use crate::control::seed_file::{SeedDomain, SeedFile, SeedKey, SeedOrganization};
use crate::model::dns::RecordKind;
use crate::model::error::ApiError;
use crate::runtime::clock;
use crate::settings::Settings;
use crate::store::Tx;
use crate::store::domains::{self, Domain, Flags};
use crate::store::organizations::{self, SANDBOX};

const DELETED: Notification = Notification::Reset {
    reason: ResetReason::Deleted,
};

/// What each start and each reset put in place: the seeded organization, and what the file has. The
/// domain of the organization may have been deleted since it `is_new`.
pub(super) fn seeds(
    settings: &Settings,
    is_new: bool,
) -> impl DoubleEndedIterator<Item = Arc<SeedFile>> {
    let sandbox = settings.seed.then(|| {
        let key = |service, key: &Secret| SeedKey {
            key: key.expose().to_owned(),
            service,
            scopes: None,
            mode: None,
        };
        let keys = [
            key(KeyService::Email, &settings.email_key),
            key(KeyService::Extraction, &settings.extraction_key),
        ];
        // The file that was given may have one of them, with fewer scopes.
        let given = settings
            .seed_file
            .iter()
            .flat_map(|file| &file.organizations);
        let given = given.filter(|organization| organization.name == SANDBOX);
        let given = given
            .flat_map(|organization| &organization.keys)
            .collect::<Vec<_>>();
        let is_not_given = |key: &SeedKey| given.iter().all(|other| other.key != key.key);
        Arc::new(SeedFile::of(vec![SeedOrganization {
            name: SANDBOX.to_owned(),
            keys: keys.into_iter().filter(is_not_given).collect(),
            domains: match is_new {
                true => vec![SeedDomain {
                    name: SANDBOX_DOMAIN.to_owned(),
                    verified: None,
                }],
                false => Vec::new(),
            },
            ..SeedOrganization::default()
        }]))
    });
    [sandbox, settings.seed_file.clone()].into_iter().flatten()
}

/// Creates the seeds at a start.
pub(crate) fn start(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<(), ApiError> {
    let is_new = organizations::oldest_named(tx.reader(), SANDBOX)?.is_none();
    seeds(&app.settings, is_new).try_for_each(|file| {
        let is_given = app
            .settings
            .seed_file
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, &file));
        file::apply(tx, app, &file, None).map_err(|error| match error.first_problem() {
            // Its paths are not those of the file that was given.
            Some((_, problem)) if !is_given => {
                ApiError::new(error.code(), format!("a key of {SANDBOX} {problem}"))
            }
            _ => error,
        })
    })
}

/// Creates the seeds after a reset, of one organization or of all of them.
fn apply(tx: &mut Tx<'_>, app: &Arc<App>, only: Option<&str>) -> Result<(), ApiError> {
    seeds(&app.settings, true).try_for_each(|file| file::apply(tx, app, &file, only))
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
        apply(tx, app, Some(&name))?;
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
        // What is written from now on has the time of the system, before the engine knows of the reset.
        context.clock.restart();
        context.requests.clear(None);
    });
    tx.publish(None, || DELETED);
    apply(tx, app, None)?;
    update_zone(tx, &app.zone)
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
