//! Fetches ids and names from a service as completion candidates.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use svc_sdk::Service;

use super::{Found, SHOWN, Values};
use crate::context::Context;
use crate::output::to_values;

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
        let items = items_of_sandbox(context, values).await?;
        return Some(named(&items, &["subject", "event", "operation", "service"]));
    }
    if values == Values::ExtractionWebhook {
        let client = context.extraction_client().await.ok()?;
        let list = context.run(client.webhooks().list()).await.ok()?;
        return Some(named(&to_values(&list), &["url"]));
    }
    let client = context.email_client().await.ok()?;
    Some(match values {
        Values::Audience => {
            named(&to_values(&context.run(client.audiences().list()).await.ok()?), &["name"])
        }
        Values::Webhook => {
            named(&to_values(&context.run(client.webhooks().list()).await.ok()?), &["url"])
        }
        Values::Contact => {
            let audiences = context.run(client.audiences().list()).await.ok()?;
            let pages = audiences.iter().take(MAX_AUDIENCES).map(|audience| {
                context.run(client.contacts().list(&audience.id).page_size(SHOWN as u64))
            });
            let pages = join_all(pages).await.into_iter().flatten();
            pages.flat_map(|page| named(&to_values(&page), &["email"])).collect()
        }
        _ => {
            let ids =
                named(&to_values(&context.run(client.domains().list()).await.ok()?), &["name"]);
            let names = ids.iter().map(|(id, name)| (name.clone(), id.clone()));
            match values {
                Values::DomainName => names.collect(),
                Values::DomainOrName => names.chain(ids.iter().cloned()).collect(),
                _ => ids,
            }
        }
    })
}

#[cfg(feature = "sandbox")]
async fn items_of_sandbox(context: &Context, values: Values) -> Option<Vec<Value>> {
    use crate::control::{client, send};

    let client = client(context, None).await.ok()?;
    Some(match values {
        Values::SandboxKey => to_values(&send(context, client.keys().list()).await.ok()??),
        Values::SandboxEmail => to_values(&send(context, client.emails().list()).await.ok()??.data),
        Values::SandboxRequest => {
            to_values(&send(context, client.requests().list()).await.ok()??.data)
        }
        Values::Template => to_values(&send(context, client.templates().list()).await.ok()??.data),
        Values::Message => to_values(&send(context, client.messages().list()).await.ok()??.data),
        Values::Delivery => to_values(&send(context, client.deliveries().list()).await.ok()??.data),
        Values::Fault => to_values(&send(context, client.faults().list()).await.ok()??),
        _ => return None,
    })
}

#[cfg(not(feature = "sandbox"))]
async fn items_of_sandbox(_: &Context, _: Values) -> Option<Vec<Value>> {
    None
}

/// Whether the base URL and key are configured, and the key can be read without a prompt.
fn is_usable_without_prompt(context: &Context, service: Service) -> bool {
    let settings = &context.settings;
    settings.url(service).is_some()
        && match &settings.key_file {
            Some(path) => Path::new(path).is_file(),
            None => {
                settings.is_in_keyring(service).is_ok_and(|in_keyring| !in_keyring)
                    && settings.stored_key(service).is_ok_and(|key| key.is_some())
            }
        }
}

/// Each id with the first of these fields that exists, as its description.
fn named(items: &[Value], names: &[&str]) -> Vec<Found> {
    let text = |item: &Value, key: &str| item[key].as_str().map(str::to_owned);
    let items = items.iter().take(10 * SHOWN);
    items
        .filter_map(|item| {
            let about = names.iter().find_map(|name| text(item, name));
            Some((text(item, "id")?, about.unwrap_or_default()))
        })
        .collect()
}
