//! Fetches ids and names from a service as completion candidates.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use svc_sdk::email::{Audience, Domain, Webhook};
use svc_sdk::{Service, extraction};

use super::{Found, SHOWN, Values};
use crate::context::Context;
use crate::resource::{self, Names, Resource};

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
    let list = list_of_sandbox(values);
    if list.is_some() || context.settings.sandbox {
        context.peek().await.then_some(())?;
    } else {
        // A key on standard input would be typed at the prompt, and a named pipe waits.
        let reads =
            |path: &PathBuf| path.as_os_str() != "-" && context.settings.path(path).is_file();
        (context.settings.key_file.as_ref().is_none_or(reads)
            && context.is_configured(service).ok()?)
        .then_some(())?;
    }
    if let Some((path, label)) = list {
        return values_of_sandbox(context, path, label).await;
    }
    let found = if values == Values::ExtractionWebhook {
        let client = context.extraction_client().await.ok()?;
        of_list::<extraction::Webhook>(context, &client).await?
    } else {
        let client = context.email_client().await.ok()?;
        match values {
            Values::Audience => of_list::<Audience>(context, &client).await?,
            Values::Webhook => of_list::<Webhook>(context, &client).await?,
            Values::Contact => {
                let audiences = of_list::<Audience>(context, &client).await?;
                let pages = audiences
                    .iter()
                    .take(MAX_AUDIENCES)
                    .map(|(id, _)| context.run(client.contacts().list(id).page_size(SHOWN as u64)));
                let contacts = join_all(pages).await.into_iter().flatten().flatten();
                named(contacts, |contact| (contact.id, contact.email))
            }
            _ => of_list::<Domain>(context, &client).await?,
        }
    };
    // A name that several have would be refused.
    let is_unique = |(_, name): &&Found| found.iter().filter(|(_, it)| it == name).count() == 1;
    let names = found.iter().filter(is_unique).map(|(id, name)| (name.clone(), id.clone()));
    Some(match values {
        Values::DomainName => names.collect(),
        Values::Domain | Values::Audience => names.chain(found.iter().cloned()).collect(),
        // Bash splits words at `:` and `@`.
        _ => found,
    })
}

async fn of_list<R: Resource>(context: &Context, client: &R::Client) -> Option<Vec<Found>> {
    let all = R::search(&Names::new(context, client), None).await.ok()?;
    Some(named(all.iter().map(resource::Found::target), |target| (target.id, target.name)))
}

/// The list of the control interface with the values, and the field that describes one.
fn list_of_sandbox(values: Values) -> Option<(&'static str, &'static str)> {
    Some(match values {
        Values::SandboxKey => ("keys", "service"),
        Values::SandboxEmail => ("emails", "subject"),
        Values::SandboxRequest => ("requests", "operation"),
        Values::Template => ("templates", "subject"),
        Values::Message => ("messages", "subject"),
        Values::Delivery => ("deliveries", "event"),
        Values::Fault => ("faults", "operation"),
        _ => return None,
    })
}

async fn values_of_sandbox(context: &Context, path: &str, label: &str) -> Option<Vec<Found>> {
    let client = context.control_client().await.ok()?;
    let call = client.raw("GET", format!("/_sandbox/{path}"));
    let list = context.run(call).await.ok()?.json::<Value>().ok()?;
    let items = list.as_array().or_else(|| list["data"].as_array())?;
    let text = |item: &Value, field: &str| item[field].as_str().map(str::to_owned);
    Some(named(items, |item| (text(item, "id").unwrap_or_default(), text(item, label))))
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
