//! The webhook of a session: created at its start and deleted at its end. A session that is killed
//! leaves its webhook behind, which the next one deletes. It knows such webhooks by their URL.

use std::io::ErrorKind;

use svc_sdk::{Secret, Service, email, extraction};
use tokio::net::TcpStream;

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::one_line;
use crate::settings::Source;
use crate::urls::{is_loopback, parse_url};

/// The last segment of the path of every session's URL.
const SESSION: &str = "svc-listen";

pub(super) struct Session {
    pub(super) id: String,
    /// The secret with which the service signs, if the response has one.
    pub(super) secret: Option<Secret>,
    service: Service,
}

/// The URL of a session's webhook.
pub(super) fn session_url(base: &str) -> Option<String> {
    let mut url = parse_url(base)?;
    url.path_segments_mut().ok()?.pop_if_empty().push(SESSION);
    Some(url.into())
}

impl Session {
    /// Deletes what killed sessions have left behind, and creates a webhook for these events.
    /// `None` in a dry run, which shows the request.
    pub(super) async fn start(
        context: &Context,
        service: Service,
        url: &str,
        events: &[String],
    ) -> Result<Option<Self>, Failure> {
        if !context.settings.dry_run {
            delete_left_behind(context, service, url).await?;
        }
        const PROGRESS: &str = "creating the webhook";
        let events = events.iter().cloned();
        let created = match service {
            Service::Email => {
                let new = email::NewWebhook::new(url, events);
                let call = context.email_client().await?.webhooks().create(&new);
                let created = context.call(call, PROGRESS).await?;
                created.map(|webhook| (webhook.id, webhook.signing_secret))
            }
            _ => {
                let new = extraction::NewWebhook::new(url, events);
                let call = context.extraction_client().await?.webhooks().create(&new);
                let created = context.call(call, PROGRESS).await?;
                created.map(|webhook| (webhook.id, webhook.secret))
            }
        };
        Ok(created.map(|(id, secret)| Self { id, secret, service }))
    }

    /// Deletes the webhook. A failure says how to delete it by hand.
    pub(super) async fn end(&self, context: &Context) -> Result<(), Failure> {
        delete(context, self.service, &self.id)
            .await
            .map_err(|failure| self.not_deleted(context, &failure.details().message))
    }

    /// The failure for a webhook that could not be deleted.
    pub(super) fn not_deleted(&self, context: &Context, why: &str) -> Failure {
        let group = match self.service {
            Service::Email => "webhooks",
            _ => "extraction webhooks",
        };
        let profile = &context.settings.profile;
        let profile = match profile.source {
            Source::Option(_) => format!("--profile {} ", profile.value),
            _ => String::new(),
        };
        let command = context.svc(&format!("{profile}{group} delete {} --yes", self.id));
        Failure::other(format!("webhook {} was not deleted: {why}", self.id))
            .code("webhook_not_deleted")
            .hint(format!("delete it: {command}"))
    }
}

/// Deletes the webhooks of sessions that were killed: those with the URL of this session, and those
/// on this machine at a port where nothing listens.
async fn delete_left_behind(context: &Context, service: Service, url: &str) -> Result<(), Failure> {
    let all: Vec<(String, Option<String>)> = match service {
        Service::Email => {
            let list = context.run(context.email_client().await?.webhooks().list()).await?;
            list.into_iter().map(|webhook| (webhook.id, webhook.url)).collect()
        }
        _ => {
            let list = context.run(context.extraction_client().await?.webhooks().list()).await?;
            list.into_iter().map(|webhook| (webhook.id, webhook.url)).collect()
        }
    };
    for (id, left) in all {
        let Some(left) = left.filter(|left| is_of_session(left)) else { continue };
        let name = format!("webhook {} ({})", one_line(&id), one_line(&left));
        if left == url || is_refused(&left).await {
            delete(context, service, &id).await?;
            context.out.note(&format!("deleted {name} of a `svc listen` that was killed"));
        } else if !parse_url(&left).is_some_and(|left| is_loopback(&left)) {
            context
                .out
                .note(&format!("{name} is of another `svc listen`: delete it if that has ended"));
        }
    }
    Ok(())
}

/// Deletes a webhook. One that does not exist any more is not an error.
async fn delete(context: &Context, service: Service, id: &str) -> Result<(), Failure> {
    let deleted = match service {
        Service::Email => context.run(context.email_client().await?.webhooks().delete(id)).await,
        _ => context.run(context.extraction_client().await?.webhooks().delete(id)).await,
    };
    match deleted {
        Err(failure) if failure.kind() != Kind::NotFound => Err(failure),
        _ => Ok(()),
    }
}

fn is_of_session(url: &str) -> bool {
    let last = |url: url::Url| url.path_segments()?.next_back().map(|last| last == SESSION);
    parse_url(url).and_then(last).unwrap_or_default()
}

/// Whether a URL leads to a port of this machine on which nothing listens.
async fn is_refused(url: &str) -> bool {
    let Some(url) = parse_url(url).filter(is_loopback) else { return false };
    let Ok(addresses) = url.socket_addrs(|| None) else { return false };
    let connected = TcpStream::connect(&*addresses).await;
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
