//! The webhook of a session: created at its start and deleted at its end. A session that is killed
//! leaves its webhook behind, which the next one with the same URL deletes, or the sandbox once a
//! delivery fails.

use svc_sdk::{Secret, Service, email, extraction};

use crate::commands::webhooks::ServiceWebhook;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::resource::Names;
use crate::stop::StopSignal;
use crate::urls::parse_url;

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
        events: Vec<String>,
    ) -> Result<Option<Self>, Failure> {
        let created = match service {
            Service::Email => create::<email::Webhook>(context, url, events).await?,
            _ => create::<extraction::Webhook>(context, url, events).await?,
        };
        Ok(created.map(|(id, secret)| Self {
            id,
            secret,
            service,
        }))
    }

    /// Deletes the webhook, unless another signal arrives. A failure says how to delete it by hand.
    pub(super) async fn end(
        &self,
        context: &Context,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        let (id, is_email) = (&self.id, self.service == Service::Email);
        let delete = async {
            match is_email {
                true => delete::<email::Webhook>(context, id).await,
                false => delete::<extraction::Webhook>(context, id).await,
            }
        };
        context
            .unless_stopped(stop, delete)
            .await
            .map_err(|failure| {
                let group = if is_email {
                    "webhooks"
                } else {
                    "extraction webhooks"
                };
                let command = context.svc(&format!("{group} delete {{}} --yes"), &[id]);
                let why = &failure.details().message;
                Failure::other(format!("webhook {id} was not deleted: {why}"))
                    .code("webhook_not_deleted")
                    .hint(format!("delete it: {command}"))
            })
    }
}

/// The id and the secret of a new webhook.
async fn create<W: ServiceWebhook>(
    context: &Context,
    url: &str,
    events: Vec<String>,
) -> Result<Option<(String, Option<Secret>)>, Failure> {
    let client = W::client(context).await?;
    if !context.settings.dry_run {
        // Those of sessions that were killed.
        for left in W::search(&Names::new(context, &client), Some(url)).await? {
            delete::<W>(context, &left.target().id).await?;
        }
    }
    let created = context
        .call(W::create(&client, url, events), "creating the webhook")
        .await?;
    Ok(created.map(|it| {
        (
            it.named().0.clone(),
            it.secret().map(|(_, secret)| secret.clone()),
        )
    }))
}

/// Deletes a webhook. One that does not exist any more is not an error.
async fn delete<W: ServiceWebhook>(context: &Context, id: &str) -> Result<(), Failure> {
    match context.run(W::delete(&W::client(context).await?, id)).await {
        Err(failure) if failure.kind() != Kind::NotFound => Err(failure),
        _ => Ok(()),
    }
}
