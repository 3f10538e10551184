//! Audiences (`docs/email-service/audiences.md`).

use http::StatusCode;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::input::object;
use crate::api::framework::{ApiResponse, Call};
use crate::model::error::ApiError;
use crate::model::schema;
use crate::model::time;
use crate::store::audiences;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
}

/// A list of contacts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audience {
    id: String,
    name: String,
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[schemars(with = "schema::Time")]
    updated_at: String,
}

impl From<audiences::Audience> for Audience {
    fn from(audience: audiences::Audience) -> Self {
        Self {
            id: audience.id,
            name: audience.name,
            created_at: time::rfc3339(audience.created_at),
            updated_at: time::rfc3339(audience.updated_at),
        }
    }
}

pub(crate) async fn create(mut call: Call) -> Result<ApiResponse, ApiError> {
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let name = required_name(new.name)?;
    let (compatibility, organization) = (call.compatibility().clone(), call.organization());
    call.create(&body, move |tx| {
        let audience = Audience::from(audiences::insert(tx, organization, name)?);
        ApiResponse::created(&compatibility, StatusCode::CREATED, &audience)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<ApiResponse, ApiError> {
    let organization = call.organization();
    let all =
        call.app().store.read(move |connection| audiences::list(connection, organization)).await?;
    let views: Vec<Audience> = all.into_iter().map(Audience::from).collect();
    ApiResponse::list(call.compatibility(), &views)
}

pub(crate) async fn get(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let find = move |connection: &Connection| audiences::find(connection, &id, organization);
    let audience = Audience::from(call.app().store.read(find).await?);
    ApiResponse::resource(call.compatibility(), &audience)
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/email-service.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            audiences::delete(tx, &id, organization)?;
            Ok(ApiResponse::no_content())
        })
        .await
}

/// Returns 422 if the name is missing or blank.
pub(super) fn required_name(name: Option<String>) -> Result<String, ApiError> {
    match name {
        None => Err(ApiError::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(ApiError::field("name", "must not be empty")),
        Some(name) => Ok(name),
    }
}
