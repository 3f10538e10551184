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
    let name = required_name(call.body().await?.name)?;
    call.create(move |tx, _, organization| audience_rows::insert(tx, organization, name, None))
        .await
}
