//! What the webhooks of both services share.

use bytes::Bytes;
use svc_sdk::Service;
use url::Url;

use crate::api::framework::{ApiResponse, Call, NoContent};
use crate::app::App;
use crate::app::engine_handle::Command;
use crate::control::webhooks::Webhook;
use crate::model::error::{ApiError, Problems};
use crate::model::event::Event;
use crate::model::network::Network;
use crate::net::target;
use crate::store::webhooks;

/// Registers a webhook. `reply` makes the response, which contains the secret.
pub(crate) async fn register<B, R>(
    call: Call<B>,
    body: &Bytes,
    url: Option<String>,
    events: Option<Vec<String>>,
    reply: fn(&App, &Webhook) -> Result<R, ApiError>,
) -> Result<R, ApiError>
where
    R: From<ApiResponse> + AsRef<ApiResponse> + Send + 'static,
{
    let (service, network) = (call.operation.service(), call.data.app.settings.network);
    let (url, events) = check_new(service, network, url, events)?;
    let create = call.create(body, move |tx, app, organization| {
        reply(app, &webhooks::insert(tx, organization, service, url, events)?)
    });
    create.await
}

/// The webhooks of the organization, oldest first.
pub(crate) async fn all(call: &Call) -> Result<Vec<Webhook>, ApiError> {
    let service = call.operation.service();
    call.data.read(move |reader, of| webhooks::list(reader, of, Some(service))).await
}

/// Deletes a webhook. Its pending deliveries are dropped.
pub(crate) async fn delete(call: Call) -> Result<NoContent, ApiError> {
    let (id, service) = (call.id(), call.operation.service());
    let deleted = call.data.write(move |tx, _, organization| {
        let webhook = webhooks::find(tx.reader(), &id, organization, service)?;
        webhooks::delete(tx, &webhook.id, organization)
    });
    deleted.await?;
    // Aborts the attempts in progress.
    let _ = call.data.app.engine.send(Command::Reload).await;
    Ok(NoContent)
}

/// Validates the URL and the events of a new webhook.
fn check_new(
    service: Service,
    network: Network,
    url: Option<String>,
    events: Option<Vec<String>>,
) -> Result<(String, Vec<String>), ApiError> {
    let mut problems = Problems::default();
    match &url {
        None => problems.add("url", "is required"),
        Some(url) => {
            if let Err(message) = check_url(service, network, url) {
                problems.add("url", message);
            }
        }
    }
    let events = match events {
        None => {
            problems.add("events", "is required");
            Vec::new()
        }
        Some(names) => check_events(service, &names, &mut problems),
    };
    problems.check()?;
    Ok((url.unwrap_or_default(), events))
}

/// Validates a webhook URL. A public server accepts only `https` for the email service, as its
/// reference says, and any absolute http(s) URL for the extraction service
/// (`docs/undocumented/services.md#webhook-urls`). An address that the attempts would refuse is
/// refused here, if the URL names it.
pub(crate) fn check_url(service: Service, network: Network, text: &str) -> Result<(), String> {
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
    if service == Service::Email && url.scheme() == "http" && network == Network::Public {
        return Err("must be an https URL on a public server".to_owned());
    }
    target::check_url(network, &url).map_err(|refused| format!("is refused: {refused}"))
}

/// Validates event names: at least one, all known. Duplicates are dropped.
pub(crate) fn check_events(
    service: Service,
    names: &[String],
    problems: &mut Problems,
) -> Vec<String> {
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
