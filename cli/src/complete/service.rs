//! Fetches ids and names from a service as completion candidates.

use std::time::Duration;

use futures_util::future::join_all;
use svc_sdk::Service;

use super::{Found, SHOWN, Values};
use crate::context::Context;
use crate::names::Names;

/// Maximum number of audiences whose contacts are fetched.
const MAX_AUDIENCES: usize = 5;

/// The current values, or none if they cannot be fetched in time.
pub(super) fn fetch(context: &Context, values: Values, timeout: Duration) -> Vec<Found> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let found =
        runtime.block_on(async { tokio::time::timeout(timeout, find(context, values)).await });
    // The thread of a host name lookup may still be running.
    runtime.shutdown_background();
    found.ok().flatten().unwrap_or_default()
}

async fn find(context: &Context, values: Values) -> Option<Vec<Found>> {
    let service = match values {
        Values::ExtractionWebhook => Service::Extraction,
        _ => Service::Email,
    };
    let of_sandbox = matches!(
        values,
        Values::SandboxKey
            | Values::SandboxEmail
            | Values::SandboxRequest
            | Values::Template
            | Values::Message
            | Values::Delivery
            | Values::Fault
    );
    if of_sandbox || context.settings.sandbox {
        context.peek().await.then_some(())?;
    } else if !is_usable_without_prompt(context, service) {
        return None;
    }
    if of_sandbox {
        return values_of_sandbox(context, values).await;
    }
    if values == Values::ExtractionWebhook {
        let client = context.extraction_client().await.ok()?;
        return of_list(context, Names::ExtractionWebhook(&client)).await;
    }
    let client = context.email_client().await.ok()?;
    match values {
        Values::Audience => of_list(context, Names::Audience(&client)).await,
        Values::Webhook => of_list(context, Names::Webhook(&client)).await,
        Values::Contact => {
            let audiences = Names::Audience(&client).all(context).await.ok()?;
            let pages = audiences.iter().take(MAX_AUDIENCES).map(|audience| {
                let id = &audience.target.id;
                context.run(client.contacts().list(id).page_size(SHOWN as u64))
            });
            let contacts = join_all(pages).await.into_iter().flatten().flatten();
            Some(named(contacts, |contact| (contact.id, contact.email)))
        }
        _ => {
            let ids = of_list(context, Names::Domain(&client)).await?;
            let names = ids.iter().map(|(id, name)| (name.clone(), id.clone()));
            Some(match values {
                Values::DomainName => names.collect(),
                _ => names.chain(ids.iter().cloned()).collect(),
            })
        }
    }
}

async fn of_list(context: &Context, names: Names<'_>) -> Option<Vec<Found>> {
    let all = names.all(context).await.ok()?;
    Some(named(all, |found| (found.target.id, found.target.name)))
}

async fn values_of_sandbox(context: &Context, values: Values) -> Option<Vec<Found>> {
    use crate::control::{client, send};

    let client = client(context, None).await.ok()?;
    Some(match values {
        Values::SandboxKey => {
            let keys = send(context, client.keys().list()).await.ok()??;
            named(keys, |key| (key.id, Some(key.service)))
        }
        Values::SandboxEmail => {
            let page = send(context, client.emails().list()).await.ok()??;
            named(page.data, |email| (email.id, Some(email.subject)))
        }
        Values::SandboxRequest => {
            let page = send(context, client.requests().list()).await.ok()??;
            named(page.data, |request| (request.summary.id, Some(request.summary.operation)))
        }
        Values::Template => {
            let page = send(context, client.templates().list()).await.ok()??;
            named(page.data, |template| (template.id, template.subject))
        }
        Values::Message => {
            let page = send(context, client.messages().list()).await.ok()??;
            named(page.data, |message| (message.id, Some(message.subject)))
        }
        Values::Delivery => {
            let page = send(context, client.deliveries().list()).await.ok()??;
            named(page.data, |delivery| (delivery.id, Some(delivery.event)))
        }
        Values::Fault => {
            let faults = send(context, client.faults().list()).await.ok()??;
            named(faults, |fault| (fault.id, fault.definition.operation))
        }
        _ => return None,
    })
}

/// Whether the base URL and key are configured, and the key can be read without a prompt.
fn is_usable_without_prompt(context: &Context, service: Service) -> bool {
    let settings = &context.settings;
    settings.url(service).is_some()
        && match &settings.key_file {
            Some(path) => settings.path(path).is_file(),
            None => settings.stored_key(service).is_ok_and(|key| key.is_some()),
        }
}

/// The ids with their descriptions.
fn named<T>(
    items: impl IntoIterator<Item = T>,
    name: impl Fn(T) -> (String, Option<String>),
) -> Vec<Found> {
    let named = items.into_iter().take(10 * SHOWN).map(name);
    let named = named.filter(|(id, _)| !id.is_empty());
    named.map(|(id, name)| (id, name.unwrap_or_default())).collect()
}
