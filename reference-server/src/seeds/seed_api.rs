//! `GET /_sandbox/seed`: writes what the server has as a seed file, which `seed_rules.rs` can apply
//! again. A file names each organization and each URL of a webhook once, so of several only the
//! oldest is written, and of a key only one that the server was given, because it stores hashes.
//! How many are left out is a comment at the head of the file.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::Value;

use crate::audiences::audience_rows::Audience;
use crate::contacts::contact_rows;
use crate::domains::domain_rows::Domain;
use crate::http::ControlCall;
use crate::http::response::content;
use crate::keys::key_rows;
use crate::keys::key_wire::Key;
use crate::model::{Failure, Result};
use crate::organizations::organization_rows;
use crate::organizations::organization_wire::NewOrganizationWebhook;
use crate::sandbox::sandbox_wire::SEED;
use crate::seeds::seed_file::{
    SeedAudience, SeedContact, SeedDomain, SeedFile, SeedKey, SeedOrganization, SeedTemplate,
};
use crate::seeds::seed_rules::seeds;
use crate::settings::Settings;
use crate::store::Reader;
use crate::templates::template_wire::Template;
use crate::webhooks::webhook_wire::Webhook;

/// Writes what the server has.
pub(crate) async fn get(call: ControlCall) -> Result<Response<Body>> {
    let app = Arc::clone(&call.app);
    let text = call
        .app
        .store
        .read(move |reader| write(reader, &app.settings))
        .await?;
    Ok(content(SEED.declared.produces, text))
}

fn write(reader: Reader<'_>, settings: &Settings) -> Result<String> {
    let mut unknown = 0;
    let mut names = HashSet::new();
    let mut organizations = organization_rows::list(reader)?;
    // A file says once what it is about: the oldest of a name, and of a URL.
    let count = organizations.len();
    organizations.retain(|organization| names.insert(organization.name.clone()));
    let mut twice = count - organizations.len();
    let organizations = organizations.into_iter().map(|organization| {
        let mut urls = HashSet::new();
        let number = organization.number;
        let known = known_keys(reader, settings, number)?;
        unknown += reader.list::<Key>(number)?.len() - known.len();
        Ok(SeedOrganization {
            name: organization.name,
            balance_cents: Some(organization.balance_cents).filter(|&cents| cents != 0),
            keys: known,
            domains: reader
                .list::<Domain>(number)?
                .into_iter()
                .map(|domain| SeedDomain {
                    name: domain.name,
                    verified: Some(false).filter(|_| !domain.flags.verified),
                })
                .collect(),
            templates: reader
                .list(number)?
                .into_iter()
                .map(export_template)
                .collect(),
            audiences: reader
                .list::<Audience>(number)?
                .into_iter()
                .map(|audience| {
                    let contacts = contact_rows::list(reader, &audience.id, "", i64::MAX, 0)?;
                    let contacts = contacts.into_iter().map(export_contact).collect();
                    Ok(SeedAudience {
                        name: audience.name,
                        id: Some(audience.id),
                        contacts,
                    })
                })
                .collect::<Result<_>>()?,
            webhooks: reader
                .list::<Webhook>(number)?
                .into_iter()
                .filter(|webhook| {
                    let is_new = urls.insert((webhook.url.clone(), webhook.service.clone()));
                    twice += usize::from(!is_new);
                    is_new
                })
                .map(export_webhook)
                .collect(),
        })
    });
    let organizations = organizations.collect::<Result<Vec<_>>>()?;
    let unknown = (unknown, "keys that the server made: it stores only hashes");
    let twice = (
        twice,
        "organizations and webhooks with the name or URL of another one",
    );
    let left_out = [unknown, twice].into_iter().filter(|(count, _)| *count > 0);
    let head = left_out
        .map(|(count, what)| format!("# Without {count} {what}.\n\n"))
        .collect::<String>();
    let text = SeedFile::of(organizations).write(&head);
    text.ok_or_else(|| Failure::internal("a value that TOML cannot hold"))
}

/// The keys of an organization that this start was given. Of the others, the server has only hashes.
fn known_keys(reader: Reader<'_>, settings: &Settings, organization: i64) -> Result<Vec<SeedKey>> {
    let mut known: Vec<SeedKey> = Vec::new();
    for file in seeds(settings, false).rev() {
        for seed in file.organizations.iter().flat_map(|seed| &seed.keys) {
            let found = key_rows::find(reader, &seed.key)?;
            let is_new = known.iter().all(|other| other.key != seed.key);
            if is_new && found.is_some_and(|found| found.organization == organization) {
                known.push(seed.clone());
            }
        }
    }
    Ok(known)
}

fn export_template(template: Template) -> SeedTemplate {
    let Template {
        id,
        subject,
        html,
        text,
        ..
    } = template;
    SeedTemplate {
        id,
        subject,
        html,
        text,
    }
}

fn export_contact(contact: contact_rows::Contact) -> SeedContact {
    let mut metadata = contact.metadata;
    metadata.values_mut().for_each(remove_nulls);
    SeedContact {
        email: contact.email,
        name: contact.name,
        topics: Some(contact.topics).filter(|topics| !topics.is_empty()),
        subscribed: Some(contact.subscribed).filter(|subscribed| !subscribed),
        metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
    }
}

/// TOML has no null.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(remove_nulls);
        }
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}

fn export_webhook(webhook: Webhook) -> NewOrganizationWebhook {
    NewOrganizationWebhook {
        url: webhook.url,
        events: webhook.events,
        secret: Some(webhook.secret),
        active: Some(false).filter(|_| !webhook.active),
    }
}
