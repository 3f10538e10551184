//! What the webhooks of both services share.

use serde::Serialize;
use svc_sdk::{Point, Service};
use url::Url;

use crate::api::framework::{Call, Reply};
use crate::app::engine_handle::Command;
use crate::control::webhooks::Webhook;
use crate::model::error::{ApiError, Problems};
use crate::model::event::Event;
use crate::model::network::Network;
use crate::net::target;
use crate::settings::Settings;
use crate::store::webhooks;

/// Registers a webhook. `view` makes the response, which contains the secret.
pub(crate) async fn register<B, T: Serialize + 'static>(
    call: Call<B>,
    url: Option<String>,
    events: Option<Vec<String>>,
    view: fn(Webhook, bool) -> T,
) -> Result<Reply<T>, ApiError> {
    let (service, settings) = (call.operation.service(), &call.data.app.settings);
    // What is missing is not valid.
    let (url, events) = (url.unwrap_or_default(), events.unwrap_or_default());
    let events = check(service, settings, Some(&url), Some(events))?.unwrap_or_default();
    let create = call.create(move |tx, _, organization| {
        Ok(view(
            webhooks::insert(tx, organization, service, url, events)?,
            true,
        ))
    });
    create.await
}

/// Lists the webhooks of the organization, oldest first.
pub(crate) async fn list<T: Serialize>(
    call: Call,
    view: fn(Webhook, bool) -> T,
) -> Result<Reply<Vec<T>>, ApiError> {
    let service = call.operation.service();
    let read = call
        .data
        .read(move |reader, of| webhooks::list(reader, of, service));
    call.reply(
        read.await?
            .into_iter()
            .map(|webhook| view(webhook, false))
            .collect(),
    )
}

/// Deletes a webhook. Its pending deliveries are dropped.
pub(crate) async fn delete(call: Call) -> Result<Reply<()>, ApiError> {
    let (id, service) = (call.id(), call.operation.service());
    let deleted = call.data.write(move |tx, _, organization| {
        let webhook = webhooks::find(tx.reader(), &id, organization, service)?;
        webhooks::delete(tx, &webhook.id, organization)
    });
    deleted.await?;
    // Aborts the attempts in progress.
    let _ = call.data.app.engine.send(Command::Reload).await;
    call.reply(())
}

/// Validates the URL and the events of a webhook. Duplicate events are dropped.
pub(crate) fn check(
    service: Service,
    settings: &Settings,
    url: Option<&str>,
    events: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, ApiError> {
    let mut problems = Problems::default();
    if let Some(Err(message)) = url.map(|url| check_url(service, settings, url)) {
        problems.add("url", message);
    }
    let events = events.map(|names| check_events(service, &names, &mut problems));
    problems.check()?;
    Ok(events)
}

/// Validates a webhook URL. For the email service it is `https`, as its reference says, except for
/// local addresses and in a dialect that takes any; for the extraction service, any absolute http(s) URL
/// (`docs/undocumented/services.md#webhook-urls`). An address that the attempts would refuse is
/// refused here, if the URL names it.
fn check_url(service: Service, settings: &Settings, text: &str) -> Result<(), String> {
    let network = settings.network;
    let not_a_url = "must be an absolute http(s) URL";
    // The URL parser drops white space, but the stored URL must be the one that is
    // called.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must not contain white space or control characters".to_owned());
    }
    let url = Url::parse(text).map_err(|_| not_a_url.to_owned())?;
    // The URL parser also accepts `https:a.test` and `https:///a.test`.
    let rest = text.split_once("://").map(|(_, rest)| rest);
    let has_host = rest.is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if !matches!(url.scheme(), "http" | "https") || !has_host {
        return Err(not_a_url.to_owned());
    }
    if text.len() > 2048 {
        return Err("must not be longer than 2048 bytes".to_owned());
    }
    let may_be_http = service != Service::Email || settings.dialect.is(Point::WebhookUrls, "any");
    if !may_be_http && url.scheme() == "http" && !target::is_in_network(network, &url) {
        return Err(format!(
            "must be an https URL; with --network {network}, http is for {}",
            match network {
                Network::Loopback => "this machine only",
                Network::Trusted => "private addresses and names without dots only",
                Network::Public => "no address",
            }
        ));
    }
    target::check_url(network, &url).map_err(|refused| format!("is refused: {refused}"))
}

/// Validates event names: at least one, all known. Duplicates are dropped.
fn check_events(service: Service, names: &[String], problems: &mut Problems) -> Vec<String> {
    if names.is_empty() {
        problems.add("events", "must name at least one event");
    }
    let mut events = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Event::parse(service, name) {
            Some(_) if events.contains(name) => {}
            Some(_) => events.push(name.clone()),
            None => problems.add(
                format!("events[{index}]"),
                format!(
                    "is not an event of the {service} service; valid events: {}",
                    Event::names(service)
                ),
            ),
        }
    }
    events
}
