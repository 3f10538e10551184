//! `/_sandbox/organizations`: creates and lists organizations; tests that use one each can share a server.
//! And `GET /v1/me` (`docs/extraction-service/README.md#organization`).

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;

use crate::domains::domain_rules::update_zone_of;
use crate::http::{Call, ControlCall};
use crate::keys::key_rows::{self, random_hex};
use crate::keys::key_wire::KeyMode;
use crate::mail::dkim;
use crate::mail::dns::is_reserved;
use crate::model::key::all_scopes;
use crate::model::{Code, Failure, Result};
use crate::organizations::organization_rows;
use crate::organizations::organization_wire::{NewOrganization, Organization, OrganizationSummary};
use crate::runtime::heavy;
use crate::seeds::seed_rules::{Seeding, check_name, each, seeds};

/// Creates an organization with a key of each service that has all scopes, a verified domain and
/// webhooks.
pub(crate) async fn create(call: ControlCall<NewOrganization>) -> Result<Organization> {
    let new = call.body;
    if let Some(name) = new.name.as_deref() {
        check_name(name)?;
        let mut seeds = seeds(&call.input.app.settings, false);
        if seeds.any(|file| file.organizations.iter().any(|seed| seed.name == name)) {
            let message = format!("the organization {name} already exists");
            return Err(Failure::new(Code::Conflict, message));
        }
    }

    let NewOrganization {
        name,
        balance_cents,
        domain,
        webhooks,
    } = new;
    let exposed = call.input.app.settings.is_exposed();
    let is_public = domain.as_deref().is_some_and(|domain| !is_reserved(domain));
    // Beside the writer: it takes a good part of a second.
    let ready_key = if is_public || exposed {
        Some(heavy::run(move || dkim::new_key(false, exposed)).await?)
    } else {
        None
    };
    let created = call.input.write(move |tx, app, _| {
        let organization =
            organization_rows::insert(tx, name.as_deref(), balance_cents.unwrap_or(0))?;
        let number = organization.number;
        let mut new_key = |service| {
            let secret = key_rows::new_secret(service, KeyMode::Test)?;
            key_rows::create(
                tx,
                &secret,
                number,
                service,
                all_scopes(service),
                KeyMode::Test,
            )?;
            Ok::<_, Failure>(secret)
        };
        let email_key = new_key(Service::Email)?;
        let extraction_key = new_key(Service::Extraction)?;
        let organization_rows::Organization {
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

pub(crate) async fn list(call: ControlCall) -> Result<Vec<OrganizationSummary>> {
    let all = call.app.store.read(organization_rows::list).await?;
    let summaries = all.into_iter().map(|organization| OrganizationSummary {
        id: organization.id,
        name: organization.name,
        balance_cents: organization.balance_cents,
    });
    Ok(summaries.collect())
}

/// The organization and the authentication context.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Me {
    organization: MyOrganization,
    auth: Auth,
}

#[derive(Serialize, JsonSchema)]
struct MyOrganization {
    id: String,
    name: String,
    /// In cents.
    balance_cents: i64,
}

/// How the request was authenticated.
#[derive(Serialize, JsonSchema)]
struct Auth {
    #[schemars(extend("const" = "api_key"))]
    method: &'static str,
    #[schemars(extend("enum" = ["full", "extract_only"]))]
    scope: &'static str,
    key_id: String,
}

pub(crate) async fn me(call: Call) -> Result<Me> {
    let key = &call.key;
    let organization = call.read(organization_rows::get).await?;
    Ok(Me {
        organization: MyOrganization {
            id: organization.id,
            name: organization.name,
            balance_cents: organization.balance_cents,
        },
        auth: Auth {
            method: "api_key",
            scope: key.scopes.first().map_or("", |scope| scope.as_str()),
            key_id: key.id.clone(),
        },
    })
}
