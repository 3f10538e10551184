//! `Examiner` sends the requests of a run, keeps each `Exchange` under the name of its step
//! (`Seen`), and removes what the run has made. The requests of the levels are in `read.rs`,
//! `write.rs` and `send.rs`, as tables of `Step`s or typed calls. A response that the client cannot
//! use is no error: it is what the run is about. Only a missing response ends the run. `will_make`
//! records what can be removed before it is created, so that `clean_up` finds it even if no
//! response came.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use svc_sdk::email::{Email, ScheduledAt};
use svc_sdk::{
    Call, Dialect, EmailClient, Error, ExtractionClient, ListStream, NewWebhook, RawResponse,
    Secret, Service,
};

use super::exchange::{Exchange, Recorder};
use super::made::{Kind, Made, Target, Thing};
use super::write::EVENTS;
use crate::context::Context;
use crate::failure::{self, Failure};
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
    pub(super) stop: StopSignal,
    email_key: Option<Key>,
    extraction_key: Option<Key>,
    recorder: Recorder,
}

/// Everything that a run has seen.
#[derive(Default)]
pub(super) struct Seen {
    /// The name of the run, with which the name of everything that it makes begins.
    pub(super) run: String,
    pub(super) exchanges: Vec<Exchange>,
    /// The scheme with which the service takes the key.
    pub(super) key: Option<Dialect>,
    /// The ids that the client has read, by their step.
    pub(super) ids: Vec<(&'static str, String)>,
    /// The signing secrets of webhooks, by the step that created them.
    pub(super) secrets: Vec<(&'static str, String)>,
}

impl Seen {
    /// The last exchange of a step.
    pub(super) fn at(&self, step: &str) -> Option<&Exchange> {
        self.exchanges.iter().rev().find(|known| known.step == step)
    }

    pub(super) fn id(&self, step: &str) -> Option<&str> {
        of_step(&self.ids, step)
    }

    pub(super) fn secret(&self, step: &str) -> Option<&str> {
        of_step(&self.secrets, step)
    }

    /// A text with the name of the run, and with the id of a step as a segment of a path. `None` if an
    /// id is not known.
    fn filled(&self, text: &str) -> Option<String> {
        let mut text = text.replace("{run}", &self.run);
        for (step, id) in &self.ids {
            text = text.replace(&format!("{{{step}}}"), &segment(id));
        }
        (!text.starts_with('/') || !text.contains('{')).then_some(text)
    }
}

fn of_step<'a>(all: &'a [(&'static str, String)], step: &str) -> Option<&'a str> {
    let found = all.iter().find(|(known, _)| *known == step)?;
    Some(&found.1)
}

/// A request without a typed method, or whose response only the checks read. `{STEP}` in its path is
/// the id that a step has created, and `{run}` the name of the run.
pub(super) struct Step {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    /// JSON, or nothing.
    body: &'static str,
}

pub(super) const fn step(
    name: &'static str,
    method: &'static str,
    path: &'static str,
    body: &'static str,
) -> Step {
    Step {
        name,
        method,
        path,
        body,
    }
}

impl<'a> Examiner<'a> {
    /// Finds the services that are set up.
    pub(super) async fn new(context: &'a Context, run: String) -> Result<Self, Failure> {
        let mut examiner = Self {
            context,
            email: None,
            extraction: None,
            target: Target::default(),
            seen: Seen {
                run,
                ..Seen::default()
            },
            made: None,
            stop: StopSignal::listen(context.settings.env.signals)?,
            email_key: None,
            extraction_key: None,
            recorder: Recorder::default(),
        };
        let is_set_up = |service| context.is_configured(service);
        let (email, extraction) = (is_set_up(Service::Email)?, is_set_up(Service::Extraction)?);
        if email || !extraction {
            let (url, key) = context.endpoint(Service::Email).await?;
            examiner.target.email_url = Some(url);
            examiner.email_key = Some(key);
            examiner.speak(Dialect::default())?;
        }
        if extraction {
            let (url, key) = context.endpoint(Service::Extraction).await?;
            examiner.extraction = Some(examiner.extraction_client(&url, &key)?);
            examiner.target.extraction_url = Some(url);
            examiner.extraction_key = Some(key);
        }
        Ok(examiner)
    }

    /// From now on, speaks to the email service by this dialect.
    pub(super) fn speak(&mut self, dialect: Dialect) -> Result<(), Failure> {
        let (Some(url), Some(key)) = (&self.target.email_url, &self.email_key) else {
            return Ok(());
        };
        let recorder = self.recorder.clone();
        let builder = self.context.email_builder_at(url, key)?;
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
        let builder = self.context.extraction_builder_at(url, key)?;
        Ok(builder
            .on_attempt(move |attempt| recorder.record(attempt))
            .build()?)
    }

    /// What must not be shown.
    pub(super) fn secrets(&self) -> Vec<String> {
        let keys = [&self.email_key, &self.extraction_key]
            .into_iter()
            .flatten();
        let keys = keys.map(|key| key.expose().to_owned());
        let secrets = self.seen.secrets.iter().map(|(_, secret)| secret.clone());
        keys.chain(secrets).collect()
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

    /// As [`call`](Self::call), also after Ctrl-C.
    async fn send<T: 'static>(&mut self, step: &'static str, call: Call<T>) -> Result<T, Error> {
        let response = call.timeout(self.context.settings.timeout.value).await;
        if let Some(exchange) = self.recorder.take() {
            self.seen.exchanges.push(Exchange { step, ..exchange });
        }
        response
    }

    /// A request by method and path. `None` if an id of the path is not known, or the service not set
    /// up.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<Call<RawResponse>> {
        let path = self.seen.filled(path)?;
        let call = match path.starts_with("/v1/") {
            true => self.extraction.as_ref()?.raw(method, path),
            false => self.email.as_ref()?.raw(method, path),
        };
        if body.is_empty() {
            return Some(call);
        }
        Some(call.body(self.seen.filled(body)?, "application/json"))
    }

    /// Sends these requests, one after the other, without those whose id is not known.
    pub(super) async fn follow(&mut self, steps: &[Step]) -> Result<(), Failure> {
        for step in steps {
            let Some(call) = self.request(step.method, step.path, step.body) else {
                continue;
            };
            let is_success = self.call(step.name, call).await?.is_some();
            let ends = step.method == "DELETE" || step.path.ends_with("/cancel");
            if let (true, Some(made)) = (ends && is_success, &mut self.made) {
                let path = self.seen.filled(step.path).unwrap_or_default();
                made.remove_at(&path)?;
            }
        }
        Ok(())
    }

    /// Creates something, which is recorded before. Returns whether it was.
    pub(super) async fn make(
        &mut self,
        kind: Kind,
        step: &'static str,
        name: &str,
    ) -> Result<bool, Failure> {
        self.will_make(kind, name, None)?;
        let (email, extraction) = (self.email.clone(), self.extraction.clone());
        let id = match (kind, email, extraction) {
            (Kind::Audience, Some(email), _) => {
                let created = self.call(step, email.audiences().create(name)).await?;
                created.map(|it| it.id)
            }
            (Kind::Domain, Some(email), _) => {
                let created = self.call(step, email.domains().create(name)).await?;
                created.map(|it| it.id)
            }
            (Kind::Webhook, Some(email), _) => {
                let events = match step {
                    "webhooks.events" => &EVENTS[..1],
                    _ => &EVENTS[..],
                };
                let webhook = NewWebhook::new(name, events.iter().copied());
                let created = self.call(step, email.webhooks().create(webhook)).await?;
                self.keep_secret(
                    step,
                    created.as_ref().and_then(|it| it.signing_secret.as_ref()),
                );
                created.map(|it| it.id)
            }
            (Kind::ExtractionWebhook, _, Some(extraction)) => {
                let webhook = NewWebhook::new(name, ["extraction.completed"]);
                let create = extraction.webhooks().create(webhook);
                let created = self.call(step, create).await?;
                self.keep_secret(step, created.as_ref().and_then(|it| it.secret.as_ref()));
                created.map(|it| it.id)
            }
            _ => None,
        };
        self.has_made(step, name, id)
    }

    fn keep_secret(&mut self, step: &'static str, secret: Option<&Secret>) {
        if let Some(secret) = secret.filter(|secret| !secret.expose().is_empty()) {
            self.seen.secrets.push((step, secret.expose().to_owned()));
        }
    }

    /// Keeps the id that the client has read in the response of a step.
    pub(super) fn keep_id(&mut self, step: &'static str, id: &str) {
        if !id.is_empty() {
            self.seen.ids.push((step, id.to_owned()));
        }
    }

    /// Records something before it is created.
    pub(super) fn will_make(
        &mut self,
        kind: Kind,
        name: &str,
        email: Option<Email>,
    ) -> Result<(), Failure> {
        let Some(made) = &mut self.made else {
            return Ok(());
        };
        made.add(Thing {
            kind,
            name: name.to_owned(),
            id: None,
            email,
        })
    }

    /// Records the id of something that was created. Returns whether there is one.
    pub(super) fn has_made(
        &mut self,
        step: &'static str,
        name: &str,
        id: Option<String>,
    ) -> Result<bool, Failure> {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            return Ok(false);
        };
        self.keep_id(step, &id);
        if let Some(made) = &mut self.made {
            made.identify(name, &id)?;
        }
        Ok(true)
    }

    /// Removes everything that is left of a run. Returns what was removed.
    pub(super) async fn clean_up(&mut self, made: &mut Made) -> Result<Vec<Thing>, Failure> {
        let mut removed = Vec::new();
        for thing in made.left.clone() {
            if self.remove(&thing).await? {
                removed.push(thing.clone());
            }
            made.remove(&thing.name)?;
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
            let contacts = email.contacts().stream(&id).into_list().await;
            for contact in contacts.map(|found| found.items).unwrap_or_default() {
                let _ = self
                    .send(CLEAN_UP, email.contacts().delete(&contact.id))
                    .await;
            }
        }
        let (method, path) = thing.kind.end(&segment(&id));
        let Some(call) = self.request(method, &path, "") else {
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
        let (email, extraction) = (self.email.clone(), self.extraction.clone());
        let found = match (thing.kind, email, extraction) {
            (Kind::Audience, Some(email), _) => {
                named(email.audiences().stream(), |it| (it.id, it.name)).await
            }
            (Kind::Domain, Some(email), _) => {
                named(email.domains().stream(), |it| (it.id, it.name)).await
            }
            (Kind::Webhook, Some(email), _) => {
                named(email.webhooks().stream(), |it| (it.id, it.url)).await
            }
            (Kind::ExtractionWebhook, _, Some(extraction)) => {
                named(extraction.webhooks().stream(), |it| (it.id, it.url)).await
            }
            (Kind::ScheduledEmail, Some(client), _) => {
                return self.find_email(&client, thing).await;
            }
            _ => Ok(Vec::new()),
        };
        let last = self.recorder.take();
        let found = match found {
            Ok(named) => {
                let mut named = named.into_iter();
                let found = named.find(|(_, name)| name.as_deref() == Some(&thing.name));
                Ok(found.map(|(id, _)| id))
            }
            // The client cannot read the list, but it is plain that the thing is not in it.
            Err(_)
                if last.is_some_and(|it| it.is_success() && !it.text().contains(&thing.name)) =>
            {
                Ok(None)
            }
            Err(failure) => Err(failure),
        };
        match found? {
            Some(id) if id.is_empty() => Err(Failure::other(format!(
                "the id of {} cannot be read; delete it by hand",
                thing.name
            ))),
            found => Ok(found),
        }
    }

    /// A service that honors the key returns the first response again. Any other schedules a second
    /// email, which is cancelled.
    async fn find_email(
        &mut self,
        client: &EmailClient,
        thing: &Thing,
    ) -> Result<Option<String>, Failure> {
        let is_due = |email: &&Email| {
            let at = email.scheduled_at.as_ref().map(ScheduledAt::as_str);
            let at = at.and_then(|at| DateTime::parse_from_rfc3339(at).ok());
            at.is_none_or(|at| at < Utc::now() + TimeDelta::minutes(1))
        };
        let Some(email) = thing.email.as_ref().filter(|email| !is_due(email)) else {
            return Ok(None);
        };
        let call = client.emails().send(email).idempotency_key(&thing.name);
        match self.send(CLEAN_UP, call).await {
            Ok(sent) => Ok(Some(sent.id)),
            Err(error) if error.status().is_some() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A key that no service has issued.
pub(super) fn wrong_key() -> Result<Key, Failure> {
    Key::parse("svc-conform-is-not-a-key", "conform")
}

/// Whether a response to a valid key says that it lacks a scope.
pub(super) fn is_about_scope(exchange: &Exchange) -> bool {
    let text = exchange.text().to_lowercase();
    [
        "scope",
        "permission",
        "restricted",
        "privilege",
        "ability",
        "role",
    ]
    .iter()
    .any(|word| text.contains(word))
}

/// An id as a segment of a path.
pub(super) fn segment(id: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(id, KEPT).to_string()
}

/// The ids and the names of the resources on all pages.
async fn named<T>(
    stream: ListStream<T>,
    read: fn(T) -> (String, Option<String>),
) -> Result<Vec<(String, Option<String>)>, Failure>
where
    T: Serialize + Send + 'static,
{
    let list = stream.into_list().await?;
    match list.is_complete() {
        true => Ok(list.into_iter().map(read).collect()),
        false => Err(Failure::other(
            "the list has more pages, which cannot be followed",
        )),
    }
}

const CLEAN_UP: &str = "clean-up";
