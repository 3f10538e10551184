//! Webhooks of either service, for the commands that treat both alike.

use svc_sdk::{Call, Secret, Service, email, extraction};

use crate::context::Context;
use crate::failure::{Failure, Kind};

/// A webhook of the email service or of the extraction service.
pub struct Webhook {
    pub id: String,
    pub url: Option<String>,
    /// The signing secret, if the response has one.
    pub secret: Option<Secret>,
}

impl From<email::Webhook> for Webhook {
    fn from(webhook: email::Webhook) -> Self {
        Self { id: webhook.id, url: webhook.url, secret: webhook.signing_secret }
    }
}

impl From<extraction::Webhook> for Webhook {
    fn from(webhook: extraction::Webhook) -> Self {
        Self { id: webhook.id, url: webhook.url, secret: webhook.secret }
    }
}

/// The words of the commands for the webhooks of a service.
pub fn commands(service: Service) -> &'static str {
    match service {
        Service::Email => "webhooks",
        _ => "extraction webhooks",
    }
}

/// The command line that deletes a webhook.
pub fn delete_command(context: &Context, service: Service, id: &str) -> String {
    let profile = match context.settings.profile.source {
        crate::settings::Source::Option(_) => {
            format!("--profile {} ", context.settings.profile.value)
        }
        _ => String::new(),
    };
    context.svc(&format!("{profile}{} delete {id} --yes", commands(service)))
}

/// Lists all webhooks.
pub async fn list(context: &Context, service: Service) -> Result<Vec<Webhook>, Failure> {
    Ok(match service {
        Service::Email => {
            let list = context.run(context.email_client().await?.webhooks().list()).await?;
            list.into_iter().map(Webhook::from).collect()
        }
        _ => {
            let list = context.run(context.extraction_client().await?.webhooks().list()).await?;
            list.into_iter().map(Webhook::from).collect()
        }
    })
}

/// Creates a webhook for these events.
pub async fn create(
    context: &Context,
    service: Service,
    url: &str,
    events: &[String],
) -> Result<Webhook, Failure> {
    const PROGRESS: &str = "creating the webhook";
    Ok(match service {
        Service::Email => {
            let call = email_call(context, url, events).await?;
            context.call_always(call, PROGRESS).await?.into()
        }
        _ => {
            let call = extraction_call(context, url, events).await?;
            context.call_always(call, PROGRESS).await?.into()
        }
    })
}

/// Shows the request that would create the webhook, for `--dry-run`.
pub async fn show_creation(
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

/// Deletes a webhook. One that does not exist any more is not an error.
pub async fn delete(context: &Context, service: Service, id: &str) -> Result<(), Failure> {
    let deleted = match service {
        Service::Email => context.run(context.email_client().await?.webhooks().delete(id)).await,
        _ => context.run(context.extraction_client().await?.webhooks().delete(id)).await,
    };
    match deleted {
        Err(failure) if failure.kind() != Kind::NotFound => Err(failure),
        _ => Ok(()),
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
