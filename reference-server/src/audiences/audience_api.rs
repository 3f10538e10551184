//! Audiences (`docs/email-service/contacts-and-domains.md`).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::audiences::audience_rows::{self, Audience};
use crate::http::input::required_name;
use crate::http::{Call, Reply};
use crate::model::Result;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Audience>> {
    let name = required_name(call.read().await?.name)?;
    call.create(move |tx, _, organization| audience_rows::insert(tx, organization, name, None))
        .await
}

pub(crate) async fn list(call: Call) -> Result<Reply<Vec<Audience>>> {
    call.reply(call.data.list().await?)
}

pub(crate) async fn get(call: Call) -> Result<Reply<Audience>> {
    let id = call.id();
    call.reply(
        call.data
            .read(move |reader, of| reader.get(&id, of))
            .await?,
    )
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/services.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<Reply<()>> {
    let id = call.id();
    call.reply(
        call.data
            .write(move |tx, _, of| tx.delete::<Audience>(&id, of))
            .await?,
    )
}
