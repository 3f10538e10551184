//! Audiences (`docs/email-service/contacts-and-domains.md`).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::framework::{Call, Reply};
use crate::model::error::ApiError;
use crate::store::audiences::{self, Audience};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Audience>, ApiError> {
    let name = required_name(call.read().await?.name)?;
    call.create(move |tx, _, organization| audiences::insert(tx, organization, name, None))
        .await
}

pub(crate) async fn list(call: Call) -> Result<Reply<Vec<Audience>>, ApiError> {
    call.reply(
        call.data
            .read(|reader, of| reader.page(of, "", i64::MAX))
            .await?,
    )
}

pub(crate) async fn get(call: Call) -> Result<Reply<Audience>, ApiError> {
    let id = call.id();
    call.reply(
        call.data
            .read(move |reader, of| reader.get(&id, of))
            .await?,
    )
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/services.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<Reply<()>, ApiError> {
    let id = call.id();
    call.reply(
        call.data
            .write(move |tx, _, of| tx.delete::<Audience>(&id, of))
            .await?,
    )
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
