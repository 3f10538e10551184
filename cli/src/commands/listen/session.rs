//! The webhook of one session: created at its start, deleted at its end.

use svc_sdk::{Call, Secret, Service, email, extraction};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::settings::Source;

pub(super) struct Session {
    pub(super) id: String,
    /// The signing secret, if the response has one.
    pub(super) secret: Option<Secret>,
    service: Service,
}

/// Creates a webhook for these events.
pub(super) async fn register(
    context: &Context,
    service: Service,
    url: &str,
    events: &[String],
) -> Result<Session, Failure> {
    let (id, secret) = match service {
        Service::Email => {
            let call = email_call(context, url, events).await?;
            let webhook = context.call_always(call, "creating the webhook").await?;
            (webhook.id, webhook.signing_secret)
        }
        _ => {
            let call = extraction_call(context, url, events).await?;
            let webhook = context.call_always(call, "creating the webhook").await?;
            (webhook.id, webhook.secret)
        }
    };
    Ok(Session { id, secret, service })
}

/// Shows the request that would create the webhook, for `--dry-run`.
pub(super) async fn show(
    context: &Context,
    service: Service,
    url: &str,
    events: &[String],
) -> Result<(), Failure> {
    match service {
        Service::Email => context.call(email_call(context, url, events).await?, "").await.map(drop),
        _ => context.call(extraction_call(context, url, events).await?, "").await.map(drop),
    }
}

async fn email_call(
    context: &Context,
    url: &str,
    events: &[String],
) -> Result<Call<email::Webhook>, Failure> {
    let new = email::NewWebhook::new(url, events.iter().cloned());
    Ok(context.email_client().await?.webhooks().create(&new))
}

async fn extraction_call(
    context: &Context,
    url: &str,
    events: &[String],
) -> Result<Call<extraction::Webhook>, Failure> {
    let new = extraction::NewWebhook::new(url, events.iter().cloned());
    Ok(context.extraction_client().await?.webhooks().create(&new))
}

/// Deletes the webhook. A webhook that is already deleted is not an error; any other failure says how to
/// delete it by hand.
pub(super) async fn remove(context: &Context, session: &Session) -> Result<(), Failure> {
    let removed = match session.service {
        Service::Email => match context.email_client().await {
            Ok(client) => context.run(client.webhooks().delete(&session.id)).await.map(drop),
            Err(failure) => Err(failure),
        },
        _ => match context.extraction_client().await {
            Ok(client) => context.run(client.webhooks().delete(&session.id)).await.map(drop),
            Err(failure) => Err(failure),
        },
    };
    match removed {
        Err(failure) if failure.kind() != Kind::NotFound => {
            Err(session.left_behind(context, &failure.details().message))
        }
        _ => Ok(()),
    }
}

impl Session {
    /// The failure for a webhook that could not be deleted.
    pub(super) fn left_behind(&self, context: &Context, why: &str) -> Failure {
        let group = match self.service {
            Service::Email => "webhooks",
            _ => "extraction webhooks",
        };
        let profile = match &context.settings.profile.source {
            Source::Option(_) => format!("--profile {} ", context.settings.profile.value),
            _ => String::new(),
        };
        let command = context.svc(&format!("{profile}{group} delete {} --yes", self.id));
        Failure::other(format!("webhook {} was not deleted: {why}", self.id))
            .code("webhook_left_behind")
            .hint(format!("delete it: {command}"))
    }
}
