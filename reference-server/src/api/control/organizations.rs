//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use svc_sdk::Service;

use super::dns::update_zone;
use super::seed::file::{Seeding, each};
use super::seed::{add_key, check_name};
use crate::api::framework::ControlCall;
use crate::control::keys::KeyMode;
use crate::control::organizations::{NewOrganization, Organization, OrganizationSummary};
use crate::model::error::{ApiError, Code};
use crate::store::keys::{self, random_hex};
use crate::store::organizations::{self, SANDBOX};
use crate::store::webhooks;

/// Creates an organization with a key of each service that has all scopes, a verified domain and
/// webhooks.
pub(crate) async fn create(call: ControlCall<NewOrganization>) -> Result<Organization, ApiError> {
    let new = call.body;
    new.name.as_deref().map_or(Ok(()), check_name)?;
    let settings = &call.data.app.settings;
    let in_file = settings.seed_file.iter().flat_map(|file| &file.organizations);
    let mut seeded = in_file.map(|seed| &*seed.name).chain(settings.seed.then_some(SANDBOX));
    if let Some(name) = seeded.find(|name| new.name.as_deref() == Some(name)) {
        let message = format!("the organization {name} already exists");
        return Err(ApiError::new(Code::Conflict, message));
    }
    let NewOrganization { name, balance_cents, domain, webhooks } = new;
    let created = call.data.write(move |tx, app, _| {
        let organization = organizations::insert(tx, name.as_deref(), balance_cents.unwrap_or(0))?;
        let email_key = keys::new_secret(Service::Email, KeyMode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, KeyMode::Test)?;
        let number = organization.number;
        add_key(tx, number, Service::Email, &email_key)?;
        add_key(tx, number, Service::Extraction, &extraction_key)?;
        let OrganizationSummary { id, name, balance_cents, .. } = organization;
        let domain = match domain {
            Some(domain) => domain,
            None => format!("{}.test", random_hex::<4>()?),
        };
        let mut seeding = Seeding { tx, app, organization: number };
        let domain = seeding.domain(&domain, true).map_err(|error| error.within("domain"))?.name;
        each(&webhooks, "webhooks", |webhook| seeding.webhook(webhook))?;
        update_zone(tx, &app.zone)?;
        let webhooks = webhooks::list(tx.reader(), number, None)?;
        Ok(Organization { id, name, balance_cents, email_key, extraction_key, domain, webhooks })
    });
    created.await
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<OrganizationSummary>, ApiError> {
    call.data.app.store.read(organizations::list).await
}
