//! Webhook endpoints of the extraction service (`docs/extraction-service/webhooks.md`).

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Service;

use crate::api::framework::input::object;
use crate::api::framework::{ApiResponse, Call};
use crate::api::webhooks::check_new;
use crate::model::error::ApiError;
use crate::model::schema;
use crate::store::webhooks::{self, Webhook};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewWebhookEndpoint")]
pub(crate) struct New {
    /// An absolute `http` or `https` URL. Credentials in the URL are sent as
    /// `Authorization: Basic`.
    #[schemars(required, length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Option<Vec<String>>,
}

/// A webhook endpoint.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookEndpoint")]
pub(crate) struct View<'a> {
    id: &'a str,
    url: &'a str,
    /// Only in the response to the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Vec<&'static str>,
    #[schemars(extend("const" = "active"))]
    status: &'static str,
}

fn view(webhook: &Webhook, secret: bool) -> View<'_> {
    View {
        id: &webhook.id,
        url: &webhook.url,
        secret: secret.then_some(webhook.secret.as_str()),
        events: webhook.events.iter().map(|event| event.as_str()).collect(),
        status: "active",
    }
}

pub(crate) async fn create(mut call: Call) -> Result<ApiResponse, ApiError> {
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let public = call.app().settings.public;
    let (url, events) = check_new(Service::Extraction, public, new.url, new.events)?;
    let app = Arc::clone(call.app());
    let organization = call.organization();
    call.create(&body, move |tx| {
        let webhook =
            webhooks::insert(tx, &app.webhooks, organization, Service::Extraction, url, events)?;
        ApiResponse::created(
            &app.settings.compatibility,
            StatusCode::CREATED,
            &view(&webhook, true),
        )
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<ApiResponse, ApiError> {
    let organization = call.organization();
    let all = call
        .app()
        .store
        .read(move |connection| webhooks::list(connection, organization, Service::Extraction));
    let all = all.await?;
    let views: Vec<View<'_>> = all.iter().map(|webhook| view(webhook, false)).collect();
    ApiResponse::list(call.compatibility(), &views)
}

pub(crate) async fn delete(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    webhooks::delete(
        &call.app().store,
        &call.app().webhooks,
        id,
        organization,
        Service::Extraction,
    )
    .await?;
    Ok(ApiResponse::no_content())
}
