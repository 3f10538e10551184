//! `GET /v1/me`: the organization and the scope of the key.

use http::StatusCode;
use serde_json::json;

use crate::error::ApiError;
use crate::web::{Answer, Call};

pub(crate) async fn get(call: Call) -> Result<Answer, ApiError> {
    let key = call.key.clone();
    let body = call.app().store.read(move |connection| {
        let mut statement = connection
            .prepare_cached("SELECT id, name, balance_cents FROM organization WHERE seq = ?1")?;
        Ok(statement.query_row([key.organization], |row| {
            let (id, name): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(json!({
                "organization": {"id": id, "name": name, "balance_cents": row.get::<_, i64>(2)?},
                "auth": {
                    "method": "api_key",
                    "scope": key.scopes.first().map(|scope| scope.as_str()),
                    "key_id": key.id,
                },
            }))
        })?)
    });
    Answer::json(StatusCode::OK, &body.await?)
}
