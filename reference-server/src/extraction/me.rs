//! `GET /v1/me`: the organization and the scope of the key.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ApiError;
use crate::web::{Answer, Call};

#[derive(JsonSchema, Serialize)]
pub(crate) struct Me {
    organization: Organization,
    auth: Auth,
}

#[derive(JsonSchema, Serialize)]
struct Organization {
    id: String,
    name: String,
    balance_cents: i64,
}

#[derive(JsonSchema, Serialize)]
struct Auth {
    method: &'static str,
    scope: Option<&'static str>,
    key_id: String,
}

pub(crate) async fn get(call: Call) -> Result<Answer, ApiError> {
    let organization = call.organization();
    let found = call.app().store.read(move |connection| {
        let mut statement = connection
            .prepare_cached("SELECT id, name, balance_cents FROM organization WHERE seq = ?1")?;
        Ok(statement.query_row([organization], |row| {
            Ok(Organization { id: row.get(0)?, name: row.get(1)?, balance_cents: row.get(2)? })
        })?)
    });
    let auth = Auth {
        method: "api_key",
        scope: call.key.scopes.first().map(|scope| scope.as_str()),
        key_id: call.key.id.clone(),
    };
    Answer::json(StatusCode::OK, &Me { organization: found.await?, auth })
}
