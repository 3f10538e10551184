//! Audiences (`docs/email-service/contacts-and-domains.md`).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::framework::{Call, Created, JsonBody, List, NoContent, Resource};
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::audiences::{self, Audience};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
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
        Created::new(&compatibility, &audiences::insert(tx, organization, name, None)?)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<List<Audience>, ApiError> {
    let organization = call.organization();
    let all = call.app().store.read(move |reader| audiences::list(reader, organization)).await?;
    List::new(call.compatibility(), &all)
}

pub(crate) async fn get(call: Call) -> Result<Resource<Audience>, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let find = move |reader: Reader<'_>| audiences::find(reader, &id, organization);
    Resource::new(call.compatibility(), &call.app().store.read(find).await?)
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/services.md#audience-deletion`).
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
