//! Applies a seed file (`docs/sandbox.md#seed-file`).

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use svc_sdk::Service;

use super::{check_name, verify_domain};
use crate::api::control::templates::check;
use crate::api::email::contacts::check_size;
use crate::api::email::domains::insert;
use crate::api::webhooks::check as check_webhook;
use crate::app::App;
use crate::control::organizations::NewOrganizationWebhook;
use crate::control::seed_file::{SeedAudience, SeedContact, SeedFile, SeedKey, SeedTemplate};
use crate::control::templates::NewTemplate;
use crate::mail::dkim::{self, StoredKey};
use crate::mail::dns::is_reserved;
use crate::model::address::{Address, DomainName};
use crate::model::error::ApiError;
use crate::model::scope::{all_scopes, scopes_of};
use crate::store::audiences::Audience;
use crate::store::contacts::Contact;
use crate::store::domains::{self, Domain};
use crate::store::keys;
use crate::store::{Tx, audiences, contacts, organizations, templates, webhooks};

/// Creates and changes what the file names; the rest stays. `only` is the name of the one
/// organization to do it for.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    file: &SeedFile,
    only: Option<&str>,
) -> Result<(), ApiError> {
    distinct(&file.organizations, "organizations", "name", |seed| {
        &seed.name
    })?;
    each(&file.organizations, "organizations", |seed| {
        if only.is_some_and(|only| only != seed.name) {
            return Ok(());
        }
        check_name(&seed.name)?;
        let organization = match organizations::oldest_named(tx.reader(), &seed.name)? {
            Some(organization) => organization,
            None => {
                let balance = seed.balance_cents.unwrap_or(0);
                organizations::insert(tx, Some(&seed.name), balance)?.number
            }
        };
        distinct(&seed.keys, "keys", "key", |key| &key.key)?;
        distinct(&seed.domains, "domains", "name", |domain| {
            domain.name.to_lowercase()
        })?;
        distinct(&seed.templates, "templates", "id", |template| &template.id)?;
        // As `Seeding::audience` finds it.
        distinct(&seed.audiences, "audiences", "", |it| {
            it.id.as_ref().ok_or(&it.name)
        })?;
        distinct(&seed.webhooks, "webhooks", "url", |webhook| {
            (&webhook.url, service_of(webhook))
        })?;
        let mut seeding = Seeding {
            tx,
            app,
            organization,
            ready_key: None,
        };
        each(&seed.keys, "keys", |key| seeding.key(key))?;
        each(&seed.domains, "domains", |domain| {
            let added = seeding.domain(&domain.name, domain.verified.unwrap_or(true));
            added.map(drop).map_err(|error| error.within("name"))
        })?;
        each(&seed.templates, "templates", |template| {
            seeding.template(template)
        })?;
        each(&seed.audiences, "audiences", |audience| {
            seeding.audience(audience)
        })?;
        each(&seed.webhooks, "webhooks", |webhook| {
            seeding.webhook(webhook)
        })
    })
}

/// Applies each item of a list. An error has the path of the item.
pub(crate) fn each<T>(
    items: &[T],
    path: &str,
    mut apply: impl FnMut(&T) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for (index, item) in items.iter().enumerate() {
        apply(item).map_err(|error| error.within(&format!("{path}[{index}]")))?;
    }
    Ok(())
}

/// Refuses two items that are the same one: the later would win in silence.
fn distinct<'a, T, K: Eq + Hash>(
    items: &'a [T],
    path: &str,
    field: &str,
    key: impl Fn(&'a T) -> K,
) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            let error = ApiError::field(field, "is in the file twice");
            return Err(error.within(&format!("{path}[{index}]")));
        }
    }
    Ok(())
}

/// The service that has a webhook's events.
fn service_of(webhook: &NewOrganizationWebhook) -> Service {
    let first = webhook.events.first();
    match first.is_some_and(|event| event.starts_with("extraction.")) {
        true => Service::Extraction,
        false => Service::Email,
    }
}

/// The name by which a date of TOML, which JSON has not, is in JSON.
const DATE: &str = "\"$__toml_private_datetime\"";

/// What is applied to an organization.
pub(crate) struct Seeding<'a, 'tx> {
    pub(crate) tx: &'a mut Tx<'tx>,
    pub(crate) app: &'a Arc<App>,
    pub(crate) organization: i64,
    /// The DKIM key of the next domain, made outside of the transaction.
    pub(crate) ready_key: Option<StoredKey>,
}

impl Seeding<'_, '_> {
    fn key(&mut self, seed: &SeedKey) -> Result<(), ApiError> {
        check_secret("key", &seed.key)?;
        let service = seed.service.service();
        let scopes = match &seed.scopes {
            None => all_scopes(service),
            Some(names) if names.is_empty() => {
                return Err(ApiError::field(
                    "scopes",
                    "must not be empty; without it, all",
                ));
            }
            Some(names) if names.len() > 1 && service == Service::Extraction => {
                return Err(ApiError::field(
                    "scopes",
                    "must be one: that of an extraction key",
                ));
            }
            Some(names) => scopes_of(service, names)?,
        };
        match keys::find(self.tx.reader(), &seed.key)? {
            Some(found) if found.organization != self.organization => {
                let other = organizations::get(self.tx.reader(), found.organization)?.name;
                let message = format!("belongs to the organization {other:?} of this server");
                return Err(ApiError::field("key", message));
            }
            Some(found) if found.service == service && found.scopes == scopes => return Ok(()),
            Some(found) => {
                keys::delete(self.tx, &found.id, self.organization)?;
            }
            None => {}
        }
        let (organization, mode) = (self.organization, seed.mode.unwrap_or_default());
        keys::create(self.tx, &seed.key, organization, service, scopes, mode)?;
        Ok(())
    }

    /// Adds a sending domain, if there is none with this name.
    pub(crate) fn domain(&mut self, name: &str, verified: bool) -> Result<Domain, ApiError> {
        let name = DomainName::parse(name)
            .ok()
            .filter(|name| name.as_str().contains('.'));
        let name = name
            .ok_or_else(|| ApiError::field("", "must be a domain name such as mail.example.com"))?;
        let found = domains::find_named(self.tx.reader(), name.as_str(), self.organization);
        let mut domain = match found {
            Ok(domain) => domain,
            Err(_) => {
                let exposed = self.app.settings.is_exposed();
                let key = match self.ready_key.take() {
                    Some(key) => key,
                    None => dkim::new_key(is_reserved(name.as_str()), exposed)?,
                };
                insert(self.tx, self.organization, name.as_str(), &key)?
            }
        };
        if verified && !domain.flags.verified {
            verify_domain(self.tx, self.organization, &mut domain)?;
        }
        Ok(domain)
    }

    fn template(&mut self, seed: &SeedTemplate) -> Result<(), ApiError> {
        let SeedTemplate {
            id,
            subject,
            html,
            text,
        } = seed.clone();
        let new = NewTemplate {
            organization: None,
            subject,
            html,
            text,
        };
        check(&new)?;
        templates::put(self.tx, self.organization, id, new).map(drop)
    }

    fn audience(&mut self, seed: &SeedAudience) -> Result<(), ApiError> {
        if seed.name.trim().is_empty() {
            return Err(ApiError::field("name", "must not be empty"));
        }
        let is_id_char = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_id =
            |id: &str| id.starts_with("aud_") && id.len() <= 60 && id.bytes().all(is_id_char);
        if seed.id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(ApiError::field(
                "id",
                "must be aud_ and letters, digits, _ or -",
            ));
        }
        let known = self.tx.reader().list::<Audience>(self.organization)?;
        let known = known.into_iter().find(|known| match &seed.id {
            Some(id) => known.id == *id,
            None => known.name == seed.name,
        });
        let audience = match known {
            Some(mut known) if known.name != seed.name => {
                known.name.clone_from(&seed.name);
                self.tx.update(self.organization, &mut known)?;
                known
            }
            Some(known) => known,
            None => {
                let (name, id) = (seed.name.clone(), seed.id.clone());
                audiences::insert(self.tx, self.organization, name, id)
                    .map_err(|error| ApiError::field("id", error.message()))?
            }
        };
        distinct(&seed.contacts, "contacts", "email", |contact| {
            contacts::email_key(&contact.email)
        })?;
        each(&seed.contacts, "contacts", |contact| {
            self.contact(contact, &audience.id)
        })
    }

    fn contact(&mut self, seed: &SeedContact, audience: &str) -> Result<(), ApiError> {
        let email = Address::parse(&seed.email).map_err(|error| ApiError::field("email", error))?;
        if seed
            .metadata
            .iter()
            .flatten()
            .any(|(_, value)| value.to_string().contains(DATE))
        {
            return Err(ApiError::field(
                "metadata",
                "has a date: write it in quotes",
            ));
        }
        let found = contacts::find_by_email(self.tx.reader(), audience, email.as_str())?;
        let mut contact = match found {
            Some(found) => found,
            None => {
                let new = Contact::new(audience.to_owned(), email.as_str().to_owned(), self.tx.now);
                contacts::insert(self.tx, self.organization, &new)?;
                new
            }
        };
        contact.name = seed.name.clone().or(contact.name);
        contact.metadata = seed.metadata.clone().unwrap_or(contact.metadata);
        contact.topics = seed.topics.clone().unwrap_or(contact.topics);
        contact.subscribed = seed.subscribed.unwrap_or(contact.subscribed);
        check_size(contact.name.as_deref(), &contact.metadata, &contact.topics)?;
        self.tx.update(self.organization, &mut contact)
    }

    /// Adds a webhook, or changes the one with this URL.
    pub(crate) fn webhook(&mut self, seed: &NewOrganizationWebhook) -> Result<(), ApiError> {
        let service = service_of(seed);
        let events = Some(seed.events.clone());
        let events = check_webhook(service, &self.app.settings, Some(&seed.url), events)?;
        if let Some(secret) = &seed.secret {
            check_secret("secret", secret)?;
        }
        let known = webhooks::list(self.tx.reader(), self.organization, service)?;
        let mut webhook = match known.into_iter().find(|known| known.url == seed.url) {
            Some(known) => known,
            None => {
                let url = seed.url.clone();
                webhooks::insert(self.tx, self.organization, service, url, Vec::new())?
            }
        };
        let before = webhook.clone();
        webhook.events = events.unwrap_or_default();
        webhook.active = seed.active.unwrap_or(true);
        webhook.secret = seed.secret.clone().unwrap_or(webhook.secret);
        if webhook != before {
            self.tx.update(self.organization, &mut webhook)?;
        }
        Ok(())
    }
}

fn check_secret(field: &str, text: &str) -> Result<(), ApiError> {
    match (1..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(ApiError::field(
            field,
            "must have 1 to 200 printable ASCII characters",
        )),
    }
}
