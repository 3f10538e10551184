//! The webhook of a session: created at its start and deleted at its end. A session that is killed
//! leaves its webhook behind, which the next one with the same URL deletes, or the sandbox once a
//! delivery fails.

use svc_sdk::{Call, Deleted, Secret, Service, email, extraction};

use crate::commands::webhooks::ServiceWebhook;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::prepared::Preview;
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
    fn of<W: ServiceWebhook>(service: Service, webhook: &W) -> Self {
        Self {
            id: webhook.named().0.clone(),
            secret: webhook.secret().map(|(_, secret)| secret.clone()),
            service,
        }
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

/// The webhook of a new session, and those that killed sessions with its URL have left behind.
pub(super) struct NewSession {
    left: Vec<Call<Deleted>>,
    webhook: NewWebhook,
}

/// The request that creates the webhook.
enum NewWebhook {
    Email(Call<email::Webhook>),
    Extraction(Call<extraction::Webhook>),
}

impl NewSession {
    pub(super) async fn new(
        context: &Context,
        service: Service,
        url: &str,
        events: Vec<String>,
    ) -> Result<Self, Failure> {
        Ok(match service {
            Service::Email => {
                let (left, create) = prepare::<email::Webhook>(context, url, events).await?;
                Self {
                    left,
                    webhook: NewWebhook::Email(create),
                }
            }
            _ => {
                let (left, create) = prepare::<extraction::Webhook>(context, url, events).await?;
                Self {
                    left,
                    webhook: NewWebhook::Extraction(create),
                }
            }
        })
    }

    /// Deletes what is left behind, and creates the webhook.
    pub(super) async fn start(self, context: &Context) -> Result<Session, Failure> {
        const PROGRESS: &str = "creating the webhook";
        for left in self.left {
            ended(context.send(left, PROGRESS).await)?;
        }
        Ok(match self.webhook {
            NewWebhook::Email(create) => {
                Session::of(Service::Email, &context.send(create, PROGRESS).await?)
            }
            NewWebhook::Extraction(create) => {
                Session::of(Service::Extraction, &context.send(create, PROGRESS).await?)
            }
        })
    }
}

impl Preview for NewSession {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        match &self.webhook {
            NewWebhook::Email(create) => create.show(context).await,
            NewWebhook::Extraction(create) => create.show(context).await,
        }
    }
}

/// The requests that delete what is left behind, and the one that creates a webhook.
async fn prepare<W: ServiceWebhook>(
    context: &Context,
    url: &str,
    events: Vec<String>,
) -> Result<(Vec<Call<Deleted>>, Call<W>), Failure> {
    let client = W::client(context).await?;
    let left = W::search(&Names::new(context, &client), Some(url)).await?;
    let left = left
        .iter()
        .map(|left| context.with_options(W::delete(&client, &left.target().id)));
    let create = context.with_options(W::create(&client, url, events));
    Ok((left.collect(), create))
}

/// Deletes a webhook. One that does not exist any more is not an error.
async fn delete<W: ServiceWebhook>(context: &Context, id: &str) -> Result<(), Failure> {
    ended(context.run(W::delete(&W::client(context).await?, id)).await)
}

fn ended(deleted: Result<Deleted, Failure>) -> Result<(), Failure> {
    match deleted {
        Err(failure) if failure.kind() != Kind::NotFound => Err(failure),
        _ => Ok(()),
    }
}
