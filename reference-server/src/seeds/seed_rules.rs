//! Fills a new database, restores it after a reset, and applies a seed file
//! (`docs/sandbox.md#seeds`).

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use svc_sdk::Service;

use crate::app::App;
use crate::audiences::audience_rows::{self, Audience};
use crate::contacts::contact_rows::{self, Contact, check_size};
use crate::domains::domain_rows::{self, Domain};
use crate::domains::domain_rules::{
    SANDBOX_DOMAIN, insert, parse_name, update_zone, verify_domain,
};
use crate::jobs::clock;
use crate::keys::key_rows;
use crate::keys::key_wire::KeyService;
use crate::mail::dkim::{self, StoredKey};
use crate::mail::dns::is_reserved;
use crate::model::key::{all_scopes, scopes_of};
use crate::model::{Address, Failure, Result};
use crate::notifications::notification_wire::{Notification, ResetReason};
use crate::organizations::organization_rows;
use crate::organizations::organization_wire::{MAX_NAME_LENGTH, NewOrganizationWebhook};
use crate::seeds::seed_file::{
    SeedAudience, SeedContact, SeedDomain, SeedFile, SeedKey, SeedOrganization, SeedTemplate,
};
use crate::settings::Settings;
use crate::store::{SANDBOX, Tx};
use crate::templates::template_rows::{self, check};
use crate::templates::template_wire::NewTemplate;
use crate::webhooks::webhook_rows;
use crate::webhooks::webhook_rules::check as check_webhook;

const DELETED: Notification = Notification::Reset {
    reason: ResetReason::Deleted,
};

/// Puts in place what each start and each reset restore: the seeded organization, and the file. The
/// domain of the organization may have been deleted since it `is_new`.
pub(crate) fn seeds(
    settings: &Settings,
    is_new: bool,
) -> impl DoubleEndedIterator<Item = Arc<SeedFile>> {
    let sandbox = settings.seed.then(|| Arc::new(sandbox(settings, is_new)));
    sandbox.into_iter().chain(settings.seed_file.clone())
}

fn sandbox(settings: &Settings, is_new: bool) -> SeedFile {
    let given = settings
        .seed_file
        .iter()
        .flat_map(|file| &file.organizations);
    let given: Vec<&SeedKey> = given
        .filter(|organization| organization.name == SANDBOX)
        .flat_map(|organization| &organization.keys)
        .collect();
    let keys = [
        (KeyService::Email, &settings.email_key),
        (KeyService::Extraction, &settings.extraction_key),
    ];
    let keys = keys.into_iter().map(|(service, key)| SeedKey {
        key: key.expose().to_owned(),
        service,
        scopes: None,
        mode: None,
    });
    // The file that was given may have one of them, with fewer scopes.
    let keys = keys.filter(|key| given.iter().all(|other| other.key != key.key));
    let domain = SeedDomain {
        name: SANDBOX_DOMAIN.to_owned(),
        verified: None,
    };
    SeedFile::of(vec![SeedOrganization {
        name: SANDBOX.to_owned(),
        keys: keys.collect(),
        domains: is_new.then_some(domain).into_iter().collect(),
        ..SeedOrganization::default()
    }])
}

/// Creates the seeds at a start.
pub(crate) fn start(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<()> {
    if app.settings.seed {
        let is_new = organization_rows::oldest_named(tx.reader(), SANDBOX)?.is_none();
        let own = sandbox(&app.settings, is_new);
        apply_file(tx, app, &own, None).map_err(|error| match error.first_problem() {
            // Its paths are not those of the file that was given.
            Some((_, problem)) => {
                Failure::new(error.code(), format!("a key of {SANDBOX} {problem}"))
            }
            None => error,
        })?;
    }
    match &app.settings.seed_file {
        Some(file) => apply_file(tx, app, file, None),
        None => Ok(()),
    }
}

/// Creates the seeds after a reset, of one organization or of all of them.
fn apply(tx: &mut Tx<'_>, app: &Arc<App>, only: Option<&str>) -> Result<()> {
    seeds(&app.settings, true).try_for_each(|file| apply_file(tx, app, &file, only))
}

/// Deletes all data of one organization except its keys, so that a test can continue
/// to use them.
pub(crate) fn reset_organization(tx: &mut Tx<'_>, app: &Arc<App>, organization: i64) -> Result<()> {
    organization_rows::delete_data(tx, organization)?;
    let context = Arc::clone(app);
    tx.after_commit(move || {
        context.requests.clear(Some(organization));
    });
    tx.publish(Some(organization), || DELETED);
    let name = organization_rows::get(tx.reader(), organization)?.name;
    if organization_rows::oldest_named(tx.reader(), &name)? == Some(organization) {
        apply(tx, app, Some(&name))?;
    }
    update_zone(tx, &app.zone)
}

/// Deletes all data of the server and creates the seed data again.
pub(crate) fn reset_server(tx: &mut Tx<'_>, app: &Arc<App>) -> Result<()> {
    // Before anything is scheduled: the clock is about to be that of the system again.
    tx.now = clock::system();
    organization_rows::delete_all(tx)?;
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

/// Returns an error if this cannot be the name of an organization.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let length = name.chars().count();
    if (1..=MAX_NAME_LENGTH).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("must have 1 to {MAX_NAME_LENGTH} characters and no control characters");
    Err(Failure::field("name", message))
}

/// Creates and changes what the file names; the rest stays. `only` is the name of the one
/// organization to do it for.
fn apply_file(tx: &mut Tx<'_>, app: &Arc<App>, file: &SeedFile, only: Option<&str>) -> Result<()> {
    distinct(&file.organizations, "organizations", "name", |seed| {
        &seed.name
    })?;
    each(&file.organizations, "organizations", |seed| {
        if only.is_some_and(|only| only != seed.name) {
            return Ok(());
        }
        check_name(&seed.name)?;
        let organization = match organization_rows::oldest_named(tx.reader(), &seed.name)? {
            Some(organization) => organization,
            None => {
                let balance = seed.balance_cents.unwrap_or(0);
                organization_rows::insert(tx, Some(&seed.name), balance)?.number
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
    mut apply: impl FnMut(&T) -> Result<()>,
) -> Result<()> {
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
) -> Result<()> {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            let error = Failure::field(field, "is in the file twice");
            return Err(error.within(&format!("{path}[{index}]")));
        }
    }
    Ok(())
}

/// The service that has a webhook's events.
fn service_of(webhook: &NewOrganizationWebhook) -> Service {
    let first = webhook.events.first();
    if first.is_some_and(|event| event.starts_with("extraction.")) {
        Service::Extraction
    } else {
        Service::Email
    }
}

/// The name by which a date of TOML, which JSON has not, is in JSON.
const DATE: &str = "\"$__toml_private_datetime\"";

/// The part of a seed file that is applied to an organization.
pub(crate) struct Seeding<'a, 'tx> {
    pub(crate) tx: &'a mut Tx<'tx>,
    pub(crate) app: &'a Arc<App>,
    pub(crate) organization: i64,
    /// The DKIM key of the next domain, made outside of the transaction.
    pub(crate) ready_key: Option<StoredKey>,
}

impl Seeding<'_, '_> {
    fn key(&mut self, seed: &SeedKey) -> Result<()> {
        check_secret("key", &seed.key)?;
        let service = seed.service.service();
        let scopes = match &seed.scopes {
            None => all_scopes(service),
            Some(names) if names.is_empty() => {
                return Err(Failure::field(
                    "scopes",
                    "must not be empty; without it, all",
                ));
            }
            Some(names) if names.len() > 1 && service == Service::Extraction => {
                return Err(Failure::field(
                    "scopes",
                    "must be one: that of an extraction key",
                ));
            }
            Some(names) => scopes_of(service, names)?,
        };
        match key_rows::find(self.tx.reader(), &seed.key)? {
            Some(found) if found.organization != self.organization => {
                let other = organization_rows::get(self.tx.reader(), found.organization)?.name;
                let message = format!("belongs to the organization {other:?} of this server");
                return Err(Failure::field("key", message));
            }
            Some(found) if found.service == service && found.scopes == scopes => return Ok(()),
            Some(found) => {
                key_rows::delete(self.tx, &found.id, self.organization)?;
            }
            None => {}
        }

        let organization = self.organization;
        let mode = seed.mode.unwrap_or_default();
        key_rows::create(self.tx, &seed.key, organization, service, scopes, mode)?;
        Ok(())
    }

    /// Adds a sending domain, if there is none with this name.
    pub(crate) fn domain(&mut self, name: &str, verified: bool) -> Result<Domain> {
        let name = parse_name("", name)?;
        let found = domain_rows::find_named(self.tx.reader(), name.as_str(), self.organization);
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

    fn template(&mut self, seed: &SeedTemplate) -> Result<()> {
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
        template_rows::put(self.tx, self.organization, id, new).map(drop)
    }

    fn audience(&mut self, seed: &SeedAudience) -> Result<()> {
        if seed.name.trim().is_empty() {
            return Err(Failure::field("name", "must not be empty"));
        }

        let is_id_char = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_id =
            |id: &str| id.starts_with("aud_") && id.len() <= 60 && id.bytes().all(is_id_char);
        if seed.id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(Failure::field(
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
                let name = seed.name.clone();
                let id = seed.id.clone();
                audience_rows::insert(self.tx, self.organization, name, id)
                    .map_err(|error| Failure::field("id", error.message()))?
            }
        };
        distinct(&seed.contacts, "contacts", "email", |contact| {
            contact_rows::email_key(&contact.email)
        })?;
        each(&seed.contacts, "contacts", |contact| {
            self.contact(contact, &audience.id)
        })
    }

    fn contact(&mut self, seed: &SeedContact, audience: &str) -> Result<()> {
        let email = Address::parse(&seed.email).map_err(|error| Failure::field("email", error))?;
        if seed
            .metadata
            .iter()
            .flatten()
            .any(|(_, value)| value.to_string().contains(DATE))
        {
            return Err(Failure::field("metadata", "has a date: write it in quotes"));
        }

        let found = contact_rows::find_by_email(self.tx.reader(), audience, email.as_str())?;
        let mut contact = match found {
            Some(found) => found,
            None => {
                let new = Contact::new(audience.to_owned(), email.as_str().to_owned(), self.tx.now);
                contact_rows::insert(self.tx, self.organization, &new)?;
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
    pub(crate) fn webhook(&mut self, seed: &NewOrganizationWebhook) -> Result<()> {
        let service = service_of(seed);
        let events = Some(seed.events.clone());
        let events = check_webhook(service, &self.app.settings, Some(&seed.url), events)?;
        if let Some(secret) = &seed.secret {
            check_secret("secret", secret)?;
        }
        let known = webhook_rows::list(self.tx.reader(), self.organization, service)?;
        let mut webhook = match known.into_iter().find(|known| known.url == seed.url) {
            Some(known) => known,
            None => {
                let url = seed.url.clone();
                webhook_rows::insert(self.tx, self.organization, service, url, Vec::new())?
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

fn check_secret(field: &str, text: &str) -> Result<()> {
    if (1..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Failure::field(
            field,
            "must have 1 to 200 printable ASCII characters",
        ))
    }
}
