//! Audiences (`docs/email-service/audiences.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::{Call, Created, JsonBody, List, NoContent, Resource};
use crate::model::error::ApiError;
use crate::model::schema;
use crate::model::time;
use crate::store::Reader;
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

pub(crate) async fn create(
    mut call: Call,
    body: JsonBody<New>,
) -> Result<Created<Audience>, ApiError> {
    let bytes = call.input.json_bytes().await?;
    let new = body.parse(&bytes)?;
    let name = required_name(new.name)?;
    let (compatibility, organization) = (call.compatibility().clone(), call.organization());
    call.create(&bytes, move |tx| {
        let audience = Audience::from(audiences::insert(tx, organization, name, None)?);
        Created::new(&compatibility, &audience)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<List<Audience>, ApiError> {
    let organization = call.organization();
    let all = call.app().store.read(move |reader| audiences::list(reader, organization)).await?;
    let views: Vec<Audience> = all.into_iter().map(Audience::from).collect();
    List::new(call.compatibility(), &views)
}

pub(crate) async fn get(call: Call) -> Result<Resource<Audience>, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let find = move |reader: Reader<'_>| audiences::find(reader, &id, organization);
    let audience = Audience::from(call.app().store.read(find).await?);
    Resource::new(call.compatibility(), &audience)
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/email-service.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<NoContent, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            audiences::delete(tx, &id, organization)?;
            Ok(NoContent)
        })
        .await
}

/// Maximum size of a name, in bytes.
const MAX_NAME: usize = 1_000;

/// Returns 422 if the name is missing, blank or long.
pub(super) fn required_name(name: Option<String>) -> Result<String, ApiError> {
    match name {
        None => Err(ApiError::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(ApiError::field("name", "must not be empty")),
        Some(name) if name.len() > MAX_NAME => {
            let size = name.len();
            let message = format!("has {size} bytes, at most {MAX_NAME} are allowed");
            Err(ApiError::field("name", message))
        }
        Some(name) => Ok(name),
    }
}
