//! Sends the requests of a run, keeps what came back, and removes what the run has made.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::email::{Email, ScheduledAt};
use svc_sdk::{
    Call, Dialect, EmailClient, Error, ExtractionClient, List, ListStream, RawResponse, Service,
};

use super::exchange::{Exchange, Recorder};
use super::made::{Kind, Made, Target, Thing};
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
    /// The signing secret of the webhook that is tested.
    pub(super) secret: Option<String>,
    /// That of the webhook of the events.
    pub(super) event_secret: Option<String>,
}

impl Seen {
    /// The last exchange of a step.
    pub(super) fn at(&self, step: &str) -> Option<&Exchange> {
        self.exchanges.iter().rev().find(|known| known.step == step)
    }

    pub(super) fn id(&self, step: &str) -> Option<&str> {
        let found = self.ids.iter().find(|(known, _)| *known == step)?;
        Some(&found.1)
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
        let secrets = [&self.seen.secret, &self.seen.event_secret]
            .into_iter()
            .flatten();
        keys.chain(secrets.cloned()).collect()
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

    /// Sends a request to the email service whose response only the checks read.
    pub(super) async fn raw(
        &mut self,
        step: &'static str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Option<RawResponse>, Failure> {
        let Some(client) = &self.email else {
            return Ok(None);
        };
        let mut call = client.raw(method.as_str(), path);
        if let Some(body) = body {
            call = call.json(&body);
        }
        self.call(step, call).await
    }

    /// Keeps the id that the client has read in the response of a step.
    pub(super) fn keep_id(&mut self, step: &'static str, id: &str) {
        if !id.is_empty() {
            self.seen.ids.push((step, id.to_owned()));
        }
    }

    /// Records something before it is created.
    pub(super) fn will_make(&mut self, kind: Kind, name: &str) -> Result<(), Failure> {
        self.will_send(kind, name, None)
    }

    pub(super) fn will_send(
        &mut self,
        kind: Kind,
        name: &str,
        email: Option<Email>,
    ) -> Result<(), Failure> {
        let name = name.to_owned();
        let made = self.made.as_mut();
        made.map_or(Ok(()), |made| {
            let id = None;
            made.add(Thing {
                kind,
                name,
                id,
                email,
            })
        })
    }

    /// Records the id of something that was created.
    pub(super) fn has_made(
        &mut self,
        step: &'static str,
        name: &str,
        id: &str,
    ) -> Result<(), Failure> {
        self.keep_id(step, id);
        match &mut self.made {
            Some(made) if !id.is_empty() => made.identify(name, id),
            _ => Ok(()),
        }
    }

    /// Records that something is gone if the step that deleted it succeeded.
    pub(super) fn has_deleted(&mut self, step: &str, name: &str) -> Result<(), Failure> {
        let is_gone = self.seen.at(step).is_some_and(Exchange::is_success);
        match &mut self.made {
            Some(made) if is_gone => made.remove(name),
            _ => Ok(()),
        }
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
        let step = "clean-up";
        let email = self.email.clone();
        let extraction = self.extraction.clone();
        let gone = match (thing.kind, email, extraction) {
            (Kind::Audience, Some(email), _) => {
                let contacts = email.contacts().stream(&id).into_list().await;
                for contact in contacts.map(|found| found.items).unwrap_or_default() {
                    let _ = self.send(step, email.contacts().delete(&contact.id)).await;
                }
                self.send(step, email.audiences().delete(&id))
                    .await
                    .map(drop)
            }
            (Kind::Domain, Some(email), _) => {
                self.send(step, email.domains().delete(&id)).await.map(drop)
            }
            (Kind::Webhook, Some(email), _) => self
                .send(step, email.webhooks().delete(&id))
                .await
                .map(drop),
            (Kind::ScheduledEmail, Some(email), _) => {
                self.send(step, email.emails().cancel(&id)).await.map(drop)
            }
            (Kind::ExtractionWebhook, _, Some(extraction)) => self
                .send(step, extraction.webhooks().delete(&id))
                .await
                .map(drop),
            _ => return Err(Failure::usage("the service of what is left is not set up")),
        };
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
                let all = whole(email.audiences().stream()).await;
                self.id_in(all, thing, |it| (it.id, it.name))
            }
            (Kind::Domain, Some(email), _) => {
                let all = whole(email.domains().stream()).await;
                self.id_in(all, thing, |it| (it.id, it.name))
            }
            (Kind::Webhook, Some(email), _) => {
                let all = whole(email.webhooks().stream()).await;
                self.id_in(all, thing, |it| (it.id, it.url))
            }
            (Kind::ExtractionWebhook, _, Some(extraction)) => {
                let all = whole(extraction.webhooks().stream()).await;
                self.id_in(all, thing, |it| (it.id, it.url))
            }
            (Kind::ScheduledEmail, Some(client), _) => {
                return self.find_email(&client, thing).await;
            }
            _ => Ok(None),
        };
        match found? {
            Some(id) if id.is_empty() => Err(Failure::other(format!(
                "the id of {} cannot be read; delete it by hand",
                thing.name
            ))),
            found => Ok(found),
        }
    }

    /// The id of the resource with the thing's name in a list.
    fn id_in<T>(
        &self,
        list: Result<Vec<T>, Failure>,
        thing: &Thing,
        read: fn(T) -> (String, Option<String>),
    ) -> Result<Option<String>, Failure> {
        let last = self.recorder.take();
        match list {
            Ok(items) => {
                let mut named = items.into_iter().map(read);
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
        match self.send("clean-up", call).await {
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

/// The items of all pages.
async fn whole<T>(stream: ListStream<T>) -> Result<Vec<T>, Failure>
where
    T: Serialize + Send + 'static,
{
    let list: List<T> = stream.into_list().await?;
    match list.is_complete() {
        true => Ok(list.items),
        false => Err(Failure::other(
            "the list has more pages, which cannot be followed",
        )),
    }
}
