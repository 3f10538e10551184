//! `Examiner` sends the requests of a run, keeps the last `Exchange` of each step (`Seen`), and removes
//! what the run has made. A response that the client cannot use is no error: it is what the run is
//! about. Only a missing response ends the run. `make` records what can be removed before it is
//! created, so that `clean_up` finds it even if no response came.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use svc_sdk::email::{Audience, Domain, Email, NewContact, ScheduledAt, Webhook};
use svc_sdk::extraction::Webhook as ExtractionWebhook;
use svc_sdk::{
    Call, Dialect, EmailClient, Error, ExtractionClient, NewWebhook, RawResponse, Secret, Service,
};

use super::exchange::Recorder;
use super::made::{Kind, Made, Target, Thing};
use super::receiver::Receiver;
use super::run::Step;
use super::seen::Seen;
use crate::context::Context;
use crate::failure::{self, Failure};
use crate::resource::Resource;
use crate::settings::Key;
use crate::stop::StopSignal;

pub(super) struct Examiner<'a> {
    pub(super) context: &'a Context,
    pub(super) email: Option<EmailClient>,
    pub(super) extraction: Option<ExtractionClient>,
    /// The key's scheme, and what the profile knows.
    pub(super) target: Target,
    pub(super) seen: Seen,
    pub(super) made: Option<Made>,
    pub(super) receiver: Option<Receiver>,
    /// The email that is sent.
    pub(super) template: Option<Email>,
    pub(super) stop: StopSignal,
    email_key: Option<Key>,
    extraction_key: Option<Key>,
    recorder: Recorder,
}

impl Seen {
    pub(super) fn id(&self, step: &str) -> Option<&str> {
        self.ids.get(step).map(String::as_str)
    }

    /// A text with the ids of steps, in a path as segments. `None` if one of them is not known.
    pub(super) fn filled(&self, text: &str) -> Option<String> {
        let is_path = text.starts_with('/');
        let mut text = text.to_owned();
        for (step, id) in &self.ids {
            let id = if is_path { &segment(id) } else { id };
            text = text.replace(&format!("{{{step}}}"), id);
        }
        (!is_path || !text.contains('{')).then_some(text)
    }
}

impl<'a> Examiner<'a> {
    /// Finds the services that are set up.
    pub(super) async fn new(context: &'a Context, run: String) -> Result<Self, Failure> {
        let mut seen = Seen::default();
        seen.ids.insert("hooks", format!("https://{run}.example/"));
        seen.ids.insert("run", run);
        let mut examiner = Self {
            context,
            email: None,
            extraction: None,
            target: Target::default(),
            seen,
            made: None,
            receiver: None,
            template: None,
            stop: StopSignal::listen(context.settings.env.signals)?,
            email_key: None,
            extraction_key: None,
            recorder: Recorder::default(),
        };
        let is_set_up = |service| context.clients.is_configured(service);
        let email = is_set_up(Service::Email)?;
        let extraction = is_set_up(Service::Extraction)?;
        if email || !extraction {
            let (url, key) = context.clients.endpoint(Service::Email).await?;
            examiner.target.email_url = Some(url);
            examiner.email_key = Some(key);
            examiner.speak(Dialect::default())?;
        }

        if extraction {
            let (url, key) = context.clients.endpoint(Service::Extraction).await?;
            examiner.extraction = Some(examiner.extraction_client(&url, &key)?);
            examiner.target.extraction_url = Some(url);
            examiner.extraction_key = Some(key);
        }

        Ok(examiner)
    }

    /// The name of the run, with which the name of everything that it makes begins.
    pub(super) fn run(&self) -> &str {
        self.seen.id("run").unwrap_or_default()
    }

    /// From now on, speaks to the email service by this dialect.
    pub(super) fn speak(&mut self, dialect: Dialect) -> Result<(), Failure> {
        let (Some(url), Some(key)) = (&self.target.email_url, &self.email_key) else {
            return Ok(());
        };

        let recorder = self.recorder.clone();
        let builder = self.context.clients.email_builder_at(url, key)?;
        let builder = builder
            .insecure_webhook_urls(true)
            .local_checks(false)
            .on_attempt(move |attempt| recorder.record(attempt));
        self.email = Some(builder.dialect(dialect.clone()).build()?);
        self.target.dialect = dialect;
        Ok(())
    }

    pub(super) fn extraction_client(
        &self,
        url: &str,
        key: &Key,
    ) -> Result<ExtractionClient, Failure> {
        let recorder = self.recorder.clone();
        let builder = self.context.clients.extraction_builder_at(url, key)?;
        Ok(builder
            .on_attempt(move |attempt| recorder.record(attempt))
            .build()?)
    }

    /// The secrets of the run, which must not be shown.
    pub(super) fn secrets(&self) -> Vec<String> {
        let keys = [&self.email_key, &self.extraction_key];
        let keys = keys.into_iter().flatten();
        keys.map(|key| key.expose().to_owned())
            .chain(self.seen.secrets.values().cloned())
            .collect()
    }

    /// Sends the request of a step. `None` if the client cannot use the response.
    pub(super) async fn call<T: 'static>(
        &mut self,
        step: &'static str,
        call: Call<T>,
    ) -> Result<Option<T>, Failure> {
        if self.stop.recv().now_or_never().is_some() {
            return Err(Failure::new(failure::Kind::Interrupted, "interrupted"));
        }
        let _progress = self.context.out.progress(step);
        match self.send(step, call).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.status().is_none() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Like [`call`](Self::call), also after Ctrl-C.
    async fn send<T: 'static>(&mut self, step: &'static str, call: Call<T>) -> Result<T, Error> {
        let response = call.timeout(self.context.settings.timeout.value).await;
        if let Some(exchange) = self.recorder.take() {
            self.seen.exchanges.insert(step, exchange);
        }
        response
    }

    /// A request by method and path. `None` if an id of the path is not known, or the service not set
    /// up.
    pub(super) fn request(&self, request: &str, body: &str) -> Option<Call<RawResponse>> {
        let (method, path) = request.split_once(' ')?;
        let path = self.seen.filled(path)?;
        let call = if path.starts_with("/v1/") {
            self.extraction.as_ref()?.raw(method, path)
        } else {
            self.email.as_ref()?.raw(method, path)
        };
        if body.is_empty() {
            return Some(call);
        }
        Some(call.body(self.seen.filled(body)?, "application/json"))
    }

    /// Forgets the exchanges of calls that are no step.
    pub(super) fn drop_exchanges(&self) {
        self.recorder.take();
    }

    /// Keeps the id that the client has read in the response of a step.
    pub(super) fn keep_id(&mut self, step: &'static str, id: &str) {
        if !id.is_empty() {
            let ids = &mut self.seen.ids;
            ids.entry(step).or_insert_with(|| id.to_owned());
        }
    }

    /// Creates something. What has to be removed is recorded before.
    pub(super) async fn make(&mut self, kind: Kind, step: &'static Step) -> Result<(), Failure> {
        let name = self.seen.filled(&step.with).unwrap_or_default();
        let template = self.template.clone().map(|mut email| {
            if kind == Kind::ScheduledEmail {
                let at = ScheduledAt::at(&(Utc::now() + TimeDelta::hours(1)));
                email = email.scheduled_at(at);
            }
            if step.subject_length > 0 {
                email.subject = "x".repeat(step.subject_length);
            }
            email
        });
        if let (Some(made), Some(_)) = (&mut self.made, kind.end("")) {
            let thing = Thing {
                kind,
                step: step.name.clone(),
                name: name.clone(),
                id: None,
                email: template.clone().filter(|_| kind == Kind::ScheduledEmail),
            };
            made.change(|left| left.push(thing))?;
        }

        let webhook = NewWebhook::new(name.as_str(), step.events.iter().map(String::as_str));
        let email = self.email.clone();
        let extraction = self.extraction.clone();
        let mut secret = None;
        let created = match (kind, email, extraction, template) {
            (Kind::Audience, Some(email), ..) => {
                let create = email.audiences().create(name.as_str());
                self.call(&step.name, create).await?.map(|it| it.id)
            }
            (Kind::Contact, Some(email), ..) => {
                let contact = NewContact::new(name.as_str()).name("Svc Conform");
                let contact = contact.metadata("kept", "yes").topic("news");
                let audience = self.seen.id("audiences.create").unwrap_or_default();
                let create = email.contacts().create(audience, contact);
                self.call(&step.name, create).await?.map(|it| it.id)
            }
            (Kind::Domain, Some(email), ..) => {
                let create = email.domains().create(name.as_str());
                let domain = self.call(&step.name, create).await?.unwrap_or_default();
                let records = domain.dns_records().len();
                self.keep_id("domains.records", &records.to_string());
                Some(domain.id)
            }
            (Kind::Webhook, Some(email), ..) => {
                let created = self
                    .call(&step.name, email.webhooks().create(webhook))
                    .await?;
                created.map(|it| {
                    secret = it.signing_secret;
                    it.id
                })
            }
            (Kind::ExtractionWebhook, _, Some(extraction), _) => {
                let create = extraction.webhooks().create(webhook);
                self.call(&step.name, create).await?.map(|it| {
                    secret = it.secret;
                    it.id
                })
            }
            (Kind::Email | Kind::ScheduledEmail, Some(client), _, Some(email)) => {
                let mut send = client.emails().send(&email);
                if !name.is_empty() {
                    send = send.idempotency_key(name.as_str());
                }
                self.call(&step.name, send).await?.map(|it| it.id)
            }
            _ => None,
        };
        if let Some(secret) = secret.filter(|secret: &Secret| !secret.expose().is_empty()) {
            let secret = secret.expose().to_owned();
            self.seen.secrets.insert(&step.name, secret);
        }
        if let Some(id) = created.filter(|id| !id.is_empty()) {
            self.keep_id(&step.name, &id);
            if let Some(made) = &mut self.made {
                made.change(|left| {
                    let mut things = left.iter_mut();
                    if let Some(thing) = things.find(|thing| thing.step == step.name) {
                        thing.id = Some(id);
                    }
                })?;
            }
        }

        Ok(())
    }

    /// Removes everything that is left of a run. Returns what was removed.
    pub(super) async fn clean_up(&mut self, made: &mut Made) -> Result<Vec<Thing>, Failure> {
        let mut removed = Vec::new();
        for thing in made.left.clone() {
            let was_there = self.remove(&thing).await;
            // To look for an email a second time could schedule one more.
            if was_there.is_ok() || thing.kind == Kind::ScheduledEmail {
                made.remove(&thing.step)?;
            }
            if was_there? {
                removed.push(thing);
            }
        }
        Ok(removed)
    }

    /// Whether there was something to remove.
    async fn remove(&mut self, thing: &Thing) -> Result<bool, Failure> {
        let known = match &thing.id {
            Some(id) => Some(id.clone()),
            None => self.find(thing).await?,
        };
        let Some(id) = known else {
            return Ok(false);
        };

        if let (Kind::Audience, Some(email)) = (thing.kind, self.email.clone()) {
            // A run makes few, and some lists have no end.
            let contacts = email.contacts().list(&id).await;
            for contact in contacts.map(|found| found.items).unwrap_or_default() {
                let _ = self
                    .send(CLEAN_UP, email.contacts().delete(&contact.id))
                    .await;
            }
        }

        let end = thing.kind.end(&segment(&id)).unwrap_or_default();
        let Some(call) = self.request(&end, "") else {
            return Err(Failure::usage("the service of what is left is not set up"));
        };

        let gone = self.send(CLEAN_UP, call).await.map(drop);
        match gone {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            // An email that was sent or cancelled already.
            Err(error) if thing.kind == Kind::ScheduledEmail && error.status().is_some() => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The id of something whose creation was not answered.
    async fn find(&mut self, thing: &Thing) -> Result<Option<String>, Failure> {
        let context = self.context;
        let email = self.email.as_ref();
        let extraction = self.extraction.as_ref();
        let found = match thing.kind {
            Kind::Audience => id_of::<Audience>(context, email, &thing.name).await,
            Kind::Domain => id_of::<Domain>(context, email, &thing.name).await,
            Kind::Webhook => id_of::<Webhook>(context, email, &thing.name).await,
            Kind::ExtractionWebhook => {
                id_of::<ExtractionWebhook>(context, extraction, &thing.name).await
            }
            _ => return self.find_email(thing).await,
        };
        let last = self.recorder.take();
        // The client cannot read the list, but it is plain that the thing is not in it.
        let is_absent = last.is_some_and(|it| it.is_success() && !it.text().contains(&thing.name));
        match found {
            Ok(Some(id)) if id.is_empty() => Err(Failure::other(format!(
                "the id of {} cannot be read; delete it by hand",
                thing.name
            ))),
            Err(_) if is_absent => Ok(None),
            found => found,
        }
    }

    /// A service that honors the key returns the first response again. Any other schedules a second
    /// email, which is cancelled.
    async fn find_email(&mut self, thing: &Thing) -> Result<Option<String>, Failure> {
        let is_due = |email: &&Email| {
            let at = email.scheduled_at.as_ref().map(ScheduledAt::as_str);
            let at = at.and_then(|at| DateTime::parse_from_rfc3339(at).ok());
            at.is_none_or(|at| at < Utc::now() + TimeDelta::minutes(1))
        };

        let email = thing.email.as_ref().filter(|email| !is_due(email));
        let (Some(client), Some(email)) = (&self.email, email) else {
            return Ok(None);
        };

        let call = client.emails().send(email).idempotency_key(&thing.name);
        match self.send(CLEAN_UP, call).await {
            Ok(sent) => Ok(Some(sent.id)),
            Err(error) if error.status().is_some_and(|status| status.is_success()) => {
                Err(Failure::other(
                    "an email was scheduled, and the response has no id with which to cancel it: it will go out within the hour",
                ))
            }
            Err(error) if error.status().is_some() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// An id as a segment of a path.
fn segment(id: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(id, KEPT).to_string()
}

/// The id of the resource with this name, on any page.
async fn id_of<R: Resource>(
    context: &Context,
    client: Option<&R::Client>,
    name: &str,
) -> Result<Option<String>, Failure> {
    let Some(stream) = client.and_then(R::stream) else {
        return Ok(None);
    };

    let list = context.caller.read_all(stream).await?;
    if !list.is_complete() {
        return Err(Failure::other(
            "the list has more pages, which cannot be followed",
        ));
    }

    let mut items = list.items.iter().map(R::named);
    let found = items.find(|(_, known)| known.as_deref() == Some(name));
    Ok(found.map(|(id, _)| id.clone()))
}

const CLEAN_UP: &str = "clean-up";
