//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use svc_sdk::Service;

use super::dns::update_zone_of;
use super::seed::file::{Seeding, each};
use super::seed::{check_name, seeds};
use crate::api::framework::ControlCall;
use crate::control::keys::KeyMode;
use crate::control::organizations::{NewOrganization, Organization, OrganizationSummary};
use crate::mail::dkim;
use crate::mail::dns::is_reserved;
use crate::model::error::{ApiError, Code};
use crate::model::scope::all_scopes;
use crate::runtime::heavy;
use crate::store::keys::{self, random_hex};
use crate::store::organizations;

/// Creates an organization with a key of each service that has all scopes, a verified domain and
/// webhooks.
pub(crate) async fn create(call: ControlCall<NewOrganization>) -> Result<Organization, ApiError> {
    let new = call.body;
    if let Some(name) = new.name.as_deref() {
        check_name(name)?;
        let mut seeds = seeds(&call.data.app.settings, false);
        if seeds.any(|file| file.organizations.iter().any(|seed| seed.name == name)) {
            let message = format!("the organization {name} already exists");
            return Err(ApiError::new(Code::Conflict, message));
        }
    }
    let NewOrganization {
        name,
        balance_cents,
        domain,
        webhooks,
    } = new;
    let exposed = call.data.app.settings.is_exposed();
    let is_public = domain.as_deref().is_some_and(|domain| !is_reserved(domain));
    // Beside the writer: it takes a good part of a second.
    let ready_key = match is_public || exposed {
        true => Some(heavy::run(move || dkim::new_key(false, exposed)).await?),
        false => None,
    };
    let created = call.data.write(move |tx, app, _| {
        let organization = organizations::insert(tx, name.as_deref(), balance_cents.unwrap_or(0))?;
        let number = organization.number;
        let mut new_key = |service| {
            let secret = keys::new_secret(service, KeyMode::Test)?;
            keys::create(
                tx,
                &secret,
                number,
                service,
                all_scopes(service),
                KeyMode::Test,
            )?;
            Ok::<_, ApiError>(secret)
        };
        let (email_key, extraction_key) = (new_key(Service::Email)?, new_key(Service::Extraction)?);
        let OrganizationSummary {
            id,
            name,
            balance_cents,
            ..
        } = organization;
        let domain = match domain {
            Some(domain) => domain,
            None => format!("{}.test", random_hex::<4>()?),
        };
        let mut seeding = Seeding {
            tx,
            app,
            organization: number,
            ready_key,
        };
        let domain = seeding
            .domain(&domain, true)
            .map_err(|error| error.within("domain"))?
            .name;
        each(&webhooks, "webhooks", |webhook| seeding.webhook(webhook))?;
        update_zone_of(tx, &app.zone, &domain)?;
        let webhooks = tx.reader().list(number)?;
        Ok(Organization {
            id,
            name,
            balance_cents,
            email_key,
            extraction_key,
            domain,
            webhooks,
        })
    });
    created.await
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<OrganizationSummary>, ApiError> {
    call.data.app.store.read(organizations::list).await
}
