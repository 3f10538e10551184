//! `GET /v1/me`: the organization and the API key of the request
//! (`docs/extraction-service/README.md#organization`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::framework::{Call, Reply};
use crate::model::error::ApiError;
use crate::store::organizations;

/// The organization and the authentication context.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Me {
    organization: Organization,
    auth: Auth,
}

#[derive(Serialize, JsonSchema)]
struct Organization {
    id: String,
    name: String,
    /// In cents.
    balance_cents: i64,
}

/// How the request was authenticated.
#[derive(Serialize, JsonSchema)]
struct Auth {
    #[schemars(extend("const" = "api_key"))]
    method: &'static str,
    #[schemars(extend("enum" = ["full", "extract_only"]))]
    scope: &'static str,
    key_id: String,
}

pub(crate) async fn get(call: Call) -> Result<Reply<Me>, ApiError> {
    let key = &call.key;
    let organization = call.data.read(organizations::get).await?;
    call.reply(Me {
        organization: Organization {
            id: organization.id,
            name: organization.name,
            balance_cents: organization.balance_cents,
        },
        auth: Auth {
            method: "api_key",
            scope: key.scopes.first().map_or("", |scope| scope.as_str()),
            key_id: key.id.clone(),
        },
    })
}
