//! Applies a seed file (`docs/control-interface.md#seed-file`).

use std::sync::Arc;

use svc_sdk::Service;
use toml::Spanned;

use super::{check_name, verify_domain};
use crate::api::email::contacts::check_contact;
use crate::api::webhooks::{check_events, check_url};
use crate::app::App;
use crate::control::keys::KeyMode;
use crate::control::templates::NewTemplate;
use crate::mail::dkim::{self, SigningKey};
use crate::mail::dns::is_reserved;
use crate::mail::template::{self, Part};
use crate::model::address::{Address, DomainName};
use crate::model::error::{ApiError, Code, Problems};
use crate::model::scope::{all_scopes, scopes_of};
use crate::model::seed_file::{
    InvalidSeed, SeedAudience, SeedContact, SeedDomain, SeedFile, SeedKey, SeedMode,
    SeedOrganization, SeedTemplate, SeedWebhook,
};
use crate::store::contacts::NewContact;
use crate::store::domains::{self, NewDomain};
use crate::store::keys::{self, random_hex};
use crate::store::webhooks;
use crate::store::{Tx, audiences, contacts, organizations, templates};

/// Why a seed file was not applied.
pub(crate) enum SeedError {
    Invalid(InvalidSeed),
    Failed(ApiError),
}

impl From<ApiError> for SeedError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// A file that is being applied to an organization.
struct Seeding<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    app: &'a Arc<App>,
    file: &'a SeedFile,
    organization: i64,
}

/// Creates and changes what the file names; the rest stays. `only` is the name of the one
/// organization to do it for.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    file: &SeedFile,
    only: Option<&str>,
) -> Result<(), SeedError> {
    for (index, seed) in file.organizations.iter().enumerate() {
        let (name, path) = (seed.name.get_ref(), format!("organizations[{index}]"));
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let mistake = |message: &str| {
            SeedError::Invalid(file.mistake(&seed.name.span(), format!("{path}.name"), message))
        };
        if let Some(message) = check_name(name) {
            return Err(mistake(&message));
        }
        let organization = match organizations::find_named(tx.reader(), name) {
            Ok(organization) => organization,
            Err(error) if error.code() == Code::NotFound => {
                organizations::insert(tx, Some(name), seed.balance_cents.unwrap_or(0))?.number
            }
            Err(error) => return Err(mistake(error.message())),
        };
        apply_to(tx, app, file, organization, seed, &path)?;
    }
    Ok(())
}

/// Creates and changes in an organization what the seed names.
pub(crate) fn apply_to(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    file: &SeedFile,
    organization: i64,
    seed: &SeedOrganization,
    path: &str,
) -> Result<(), SeedError> {
    let mut seeding = Seeding { tx, app, file, organization };
    for (index, key) in seed.keys.iter().enumerate() {
        seeding.key(key, &format!("{path}.keys[{index}]"))?;
    }
    for (index, domain) in seed.domains.iter().enumerate() {
        seeding.domain(domain, &format!("{path}.domains[{index}]"))?;
    }
    for (index, template) in seed.templates.iter().enumerate() {
        seeding.template(template, &format!("{path}.templates[{index}]"))?;
    }
    for (index, audience) in seed.audiences.iter().enumerate() {
        seeding.audience(audience, &format!("{path}.audiences[{index}]"))?;
    }
    for (index, webhook) in seed.webhooks.iter().enumerate() {
        seeding.webhook(webhook, &format!("{path}.webhooks[{index}]"))?;
    }
    Ok(())
}

impl Seeding<'_, '_> {
    fn mistake<T>(
        &self,
        value: &Spanned<T>,
        field: String,
        message: impl Into<String>,
    ) -> SeedError {
        SeedError::Invalid(self.file.mistake(&value.span(), field, message))
    }

    fn key(&mut self, seed: &SeedKey, path: &str) -> Result<(), SeedError> {
        let (secret, service) = (seed.key.get_ref(), Service::from(seed.service));
        if !(1..=200).contains(&secret.len()) || !secret.bytes().all(|b| b.is_ascii_graphic()) {
            let message = "must have 1 to 200 printable ASCII characters";
            return Err(self.mistake(&seed.key, format!("{path}.key"), message));
        }
        let scopes = match &seed.scopes {
            None => all_scopes(service),
            Some(names) => match scopes_of(service, names.get_ref()) {
                Ok(scopes) if !scopes.is_empty() => scopes,
                _ => {
                    let message = format!("must be scopes of the {service} service");
                    return Err(self.mistake(names, format!("{path}.scopes"), message));
                }
            },
        };
        match keys::find(self.tx.reader(), secret)? {
            Some(found) if found.organization != self.organization => {
                let message = "belongs to another organization";
                return Err(self.mistake(&seed.key, format!("{path}.key"), message));
            }
            Some(found) if found.service == service && found.scopes == scopes => return Ok(()),
            Some(found) => {
                keys::delete(self.tx, &found.id, self.organization)?;
            }
            None => {}
        }
        let mode = match seed.mode {
            SeedMode::Test => KeyMode::Test,
            SeedMode::Live => KeyMode::Live,
        };
        keys::create(self.tx, secret, self.organization, service, scopes, mode)?;
        Ok(())
    }

    fn domain(&mut self, seed: &SeedDomain, path: &str) -> Result<(), SeedError> {
        let Some(name) =
            DomainName::parse(seed.name.get_ref()).ok().filter(|name| name.as_str().contains('.'))
        else {
            let message = "must be a domain name such as mail.example.com";
            return Err(self.mistake(&seed.name, format!("{path}.name"), message));
        };
        let found = domains::find_named(self.tx.reader(), name.as_str(), self.organization);
        let mut domain = match found {
            Ok(domain) => domain,
            Err(_) => insert_domain(self.tx, self.app, self.organization, &name)?,
        };
        if seed.verified && !domain.flags.verified {
            verify_domain(self.tx, self.app, &mut domain)?;
        }
        Ok(())
    }

    fn template(&mut self, seed: &SeedTemplate, path: &str) -> Result<(), SeedError> {
        let parts = [
            ("subject", Part::Subject, &seed.subject),
            ("html", Part::Html, &seed.html),
            ("text", Part::Text, &seed.text),
        ];
        for (field, part, text) in parts {
            if let Some(text) = text
                && let Err(error) = template::check(part, text.get_ref())
            {
                return Err(self.mistake(text, format!("{path}.{field}"), error.to_string()));
            }
        }
        let text = |part: &Option<Spanned<String>>| part.as_ref().map(|it| it.get_ref().clone());
        let new = NewTemplate {
            organization: None,
            subject: text(&seed.subject),
            html: text(&seed.html),
            text: text(&seed.text),
        };
        templates::put(self.tx, self.organization, seed.id.get_ref(), &new)?;
        Ok(())
    }

    fn audience(&mut self, seed: &SeedAudience, path: &str) -> Result<(), SeedError> {
        let name = seed.name.get_ref();
        if name.trim().is_empty() {
            return Err(self.mistake(&seed.name, format!("{path}.name"), "must not be empty"));
        }
        let known = audiences::list(self.tx.reader(), self.organization)?;
        let audience = match known.into_iter().find(|known| known.name == *name) {
            Some(known) => known,
            None => audiences::insert(self.tx, self.organization, name.clone())?,
        };
        for (index, contact) in seed.contacts.iter().enumerate() {
            self.contact(contact, &audience.id, &format!("{path}.contacts[{index}]"))?;
        }
        Ok(())
    }

    fn contact(&mut self, seed: &SeedContact, audience: &str, path: &str) -> Result<(), SeedError> {
        let email = seed.email.get_ref();
        let (metadata, topics) = (seed.metadata.as_ref(), seed.topics.as_deref());
        if let Err(error) = Address::parse(email) {
            return Err(self.mistake(&seed.email, format!("{path}.email"), error.to_string()));
        }
        if let Err(error) = check_contact(seed.name.as_deref(), metadata, topics) {
            return Err(self.mistake(&seed.email, path.to_owned(), error.message()));
        }
        let found = contacts::find_by_email(self.tx.reader(), audience, email)?;
        let mut contact = match found {
            Some(found) => found,
            None => {
                let new = NewContact {
                    audience: audience.to_owned(),
                    email: email.clone(),
                    name: None,
                    metadata: Default::default(),
                    topics: Vec::new(),
                };
                contacts::insert(self.tx, self.organization, new)?
            }
        };
        contact.name = seed.name.clone().or(contact.name);
        contact.metadata = seed.metadata.clone().unwrap_or(contact.metadata);
        contact.topics = seed.topics.clone().unwrap_or(contact.topics);
        contact.subscribed = seed.subscribed.unwrap_or(contact.subscribed);
        contacts::update(self.tx, &mut contact)?;
        Ok(())
    }

    fn webhook(&mut self, seed: &SeedWebhook, path: &str) -> Result<(), SeedError> {
        let (service, network) = (seed.service(), self.app.settings.network);
        if let Err(message) = check_url(service, network, seed.url.get_ref()) {
            return Err(self.mistake(&seed.url, format!("{path}.url"), message));
        }
        let mut problems = Problems::default();
        let events = check_events(service, seed.events.get_ref(), &mut problems);
        if let Err(error) = problems.check() {
            return Err(self.mistake(&seed.events, format!("{path}.events"), error.message()));
        }
        if let Some(secret) = &seed.secret {
            let text = secret.get_ref();
            if !(1..=200).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_graphic()) {
                let message = "must have 1 to 200 printable ASCII characters";
                return Err(self.mistake(secret, format!("{path}.secret"), message));
            }
        }
        let secret = seed.secret.as_ref().map(|secret| secret.get_ref().clone());
        let url = seed.url.get_ref();
        let known = webhooks::list(self.tx.reader(), self.organization, service)?;
        let mut webhook = match known.into_iter().find(|known| known.url == *url) {
            Some(known) => known,
            None => {
                let url = url.clone();
                webhooks::insert(self.tx, self.organization, service, url, Vec::new())?
            }
        };
        webhook.events = events;
        webhook.active = seed.active;
        webhook.secret = secret.unwrap_or(webhook.secret);
        webhooks::update(self.tx, &webhook)?;
        Ok(())
    }
}

/// Adds a sending domain that is not verified.
fn insert_domain(
    tx: &mut Tx<'_>,
    app: &App,
    organization: i64,
    name: &DomainName,
) -> Result<domains::Domain, ApiError> {
    let key = match dkim::ready_key(is_reserved(name.as_str()), app.settings.is_exposed()) {
        Some(key) => key.to_vec(),
        None => dkim::generate_key().map_err(ApiError::internal)?.to_vec(),
    };
    let new = NewDomain {
        name: name.as_str(),
        selector: &format!("svc{}", random_hex::<4>()?),
        private_key: &key,
        public_key: SigningKey::from_pkcs8(&key).map_err(ApiError::internal)?.record(),
    };
    domains::insert(tx, organization, new)
}
