//! `GET /v1/me`: the organization and the API key of the request
//! (`docs/extraction-service/organization.md`).

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::framework::{ApiResponse, Call};
use crate::model::error::ApiError;

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

pub(crate) async fn get(call: Call) -> Result<ApiResponse, ApiError> {
    let key = call.key.clone();
    let me = call.app().store.read(move |connection| {
        let mut statement = connection
            .prepare_cached("SELECT id, name, balance_cents FROM organization WHERE seq = ?1")?;
        Ok(statement.query_row([key.organization], |row| {
            let (id, name, balance_cents) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Me {
                organization: Organization { id, name, balance_cents },
                auth: Auth {
                    method: "api_key",
                    scope: key.scopes.first().map_or("", |scope| scope.as_str()),
                    key_id: key.id.clone(),
                },
            })
        })?)
    });
    ApiResponse::json(StatusCode::OK, &me.await?)
}
