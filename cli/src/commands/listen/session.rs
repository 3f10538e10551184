//! The webhook of one session: registered at its start, removed at its end.

use svc_sdk::{Secret, Service, email, extraction};

use crate::context::Context;
use crate::failure::Failure;

pub(super) struct Session {
    pub(super) id: String,
    pub(super) secret: Secret,
    service: Service,
}

impl Session {
    /// What removes the webhook where the session could not.
    pub(super) fn removal(&self, context: &Context) -> String {
        let group = match self.service {
            Service::Email => "webhooks",
            Service::Extraction => "extraction webhooks",
        };
        context.svc(&format!("{group} delete {} --yes", self.id))
    }
}

/// Registers a webhook for every documented event of the service.
pub(super) async fn register(
    context: &Context,
    service: Service,
    url: &str,
) -> Result<Session, Failure> {
    let (id, secret) = match service {
        Service::Email => {
            let events = email::Event::DOCUMENTED.iter().map(|event| event.as_str().to_owned());
            let new = email::NewWebhook::new(url, events);
            let client = context.email_client().await?;
            let call = client.webhooks().create(&new);
            let webhook = context.call_always(call, "registering").await?;
            (webhook.id, webhook.signing_secret)
        }
        Service::Extraction => {
            let events =
                extraction::Event::DOCUMENTED.iter().map(|event| event.as_str().to_owned());
            let new = extraction::NewWebhook::new(url, events);
            let client = context.extraction_client().await?;
            let call = client.webhooks().create(&new);
            let webhook = context.call_always(call, "registering").await?;
            (webhook.id, webhook.secret)
        }
    };
    let session = Session { secret: Secret::new(""), id, service };
    match secret {
        Some(secret) => Ok(Session { secret, ..session }),
        None => Err(Failure::other("the answer to the registration holds no signing secret")
            .hint(format!("remove the webhook: {}", session.removal(context)))),
    }
}

/// Removes it; one that is gone already is as good.
pub(super) async fn remove(context: &Context, session: &Session) -> Result<(), Failure> {
    let removed = match session.service {
        Service::Email => {
            let client = context.email_client().await?;
            context.run(client.webhooks().delete(&session.id)).await
        }
        Service::Extraction => {
            let client = context.extraction_client().await?;
            context.run(client.webhooks().delete(&session.id)).await
        }
    };
    match removed {
        Err(failure) if failure.kind() == crate::failure::Kind::NotFound => Ok(()),
        other => other.map(drop),
    }
}
