//! Audiences (`docs/email-service/contacts-and-domains.md`).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::framework::{Call, Created, List, NoContent, Resource};
use crate::model::error::ApiError;
use crate::store::audiences::{self, Audience};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
}

pub(crate) async fn create(mut call: Call<New>) -> Result<Created<Audience>, ApiError> {
    let (new, bytes) = call.read().await?;
    let name = required_name(new.name)?;
    let create = call.create(&bytes, move |tx, app, organization| {
        Created::new(app, &audiences::insert(tx, organization, name, None)?)
    });
    create.await
}

pub(crate) async fn list(call: Call) -> Result<List<Audience>, ApiError> {
    List::new(&call.data.app, &call.data.read(|reader, of| reader.page(of, "", i64::MAX)).await?)
}

pub(crate) async fn get(call: Call) -> Result<Resource<Audience>, ApiError> {
    let id = call.id();
    let found = call.data.read(move |reader, of| reader.get(&id, of));
    Resource::new(&call.data.app, &found.await?)
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/services.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<NoContent, ApiError> {
    let id = call.id();
    call.data.write(move |tx, _, of| tx.delete::<Audience>(&id, of)).await?;
    Ok(NoContent)
}

/// Maximum size of a name, in bytes.
const MAX_NAME: usize = 1_000;

/// Returns 422 if the name is missing, blank or long.
pub(super) fn required_name(name: Option<String>) -> Result<String, ApiError> {
    match name {
        None => Err(ApiError::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(ApiError::field("name", "must not be empty")),
        Some(name) => {
            ApiError::at_most("name", name.len(), MAX_NAME, "bytes")?;
            Ok(name)
        }
    }
}
