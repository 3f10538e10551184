//! `POST /api/v1/emails/batch`: every email is accepted or rejected on its own
//! (`docs/undocumented/services.md#batch-result`).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::emails::{Origin, accept, apply_template};
use super::request::{Checked, NewEmail};
use crate::api::framework::call;
use crate::api::framework::input::{not_json, object};
use crate::api::framework::{Call, Json};
use crate::model::compatibility::Compatibility;
use crate::model::error::{ApiError, Code, ErrorObject};
use crate::model::status::Status;
use crate::runtime::heavy;

/// Maximum number of emails in a batch.
const MAX_EMAILS: usize = 100;

/// An array of emails, or an object with such an array.
#[derive(JsonSchema)]
#[schemars(rename = "CreateEmails", untagged)]
#[expect(dead_code, reason = "only for the OpenAPI description; every email is parsed on its own")]
pub(crate) enum New {
    Bare(#[schemars(length(min = 1, max = 100))] Vec<NewEmail>),
    Wrapped {
        #[schemars(length(min = 1, max = 100))]
        emails: Vec<NewEmail>,
    },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchResults")]
pub(crate) struct Results {
    /// One result for each email, in the order of the request.
    results: Vec<Item>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BatchResult")]
enum Item {
    Accepted {
        index: usize,
        id: String,
        status: Status,
    },
    Rejected {
        index: usize,
        #[schemars(with = "ErrorObject<'_>")]
        error: Box<RawValue>,
    },
}

pub(crate) async fn send(mut call: Call<New>) -> Result<Json<Results>, ApiError> {
    let bytes = call.input.json_bytes().await?;
    let (app, read) = (Arc::clone(&call.data.app), bytes.clone());
    let parse = move || parse(&read, &app.settings.compatibility);
    let mut checked = heavy::run_on(bytes.len(), parse).await?;
    for email in &mut checked {
        let Ok(checked) = email else { continue };
        if let Err(error) = apply_template(&call.data, checked).await {
            *email = Err(error);
        }
    }
    let origin = Origin::of(&call);
    let create = call.create(&bytes, move |tx, _, _| {
        let mut results = Vec::with_capacity(checked.len());
        for (index, email) in checked.into_iter().enumerate() {
            // `accept` writes nothing if it rejects an email.
            let accepted = email.and_then(|checked| accept(tx, &origin, checked));
            results.push(match accepted {
                Ok(email) => {
                    Item::Accepted { index, id: email.shown.id, status: email.shown.status }
                }
                Err(error) if error.code().status().is_server_error() => return Err(error),
                Err(error) => Item::Rejected {
                    index,
                    error: to_raw_value(&error.object()).map_err(ApiError::internal)?,
                },
            });
        }
        Json::of(&Results { results })
    });
    create.await
}

/// Parses an array of emails, or an object with such an array in `emails`.
fn parse(
    bytes: &[u8],
    compatibility: &Compatibility,
) -> Result<Vec<Result<Checked, ApiError>>, ApiError> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        emails: Vec<&'a RawValue>,
    }
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let emails: Vec<&RawValue> = match first {
        Some(b'[') => serde_json::from_slice(bytes).map_err(|error| not_json(bytes, &error))?,
        Some(b'{') => match serde_json::from_slice::<Wrapped<'_>>(bytes) {
            Ok(wrapped) => wrapped.emails,
            Err(error) if error.is_data() => {
                object::<serde::de::IgnoredAny>(bytes)?;
                return Err(ApiError::field("emails", "must be a list of emails"));
            }
            Err(error) => return Err(not_json(bytes, &error)),
        },
        _ => {
            if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
                return Err(not_json(bytes, &error));
            }
            return Err(ApiError::field("", "must be a list of emails or {\"emails\": […]}"));
        }
    };
    if emails.is_empty() {
        return Err(ApiError::field("emails", "must contain at least one email"));
    }
    ApiError::at_most("emails", emails.len(), MAX_EMAILS, "emails")?;
    emails.into_iter().map(|email| parse_email(bytes, email, compatibility)).collect()
}

/// Parses one email. An invalid field fails only this email (inner error). Invalid JSON,
/// such as too many levels or half a surrogate pair, fails the request (outer error).
fn parse_email(
    bytes: &[u8],
    email: &RawValue,
    compatibility: &Compatibility,
) -> Result<Result<Checked, ApiError>, ApiError> {
    match call::parse::<NewEmail>(email.get().as_bytes(), compatibility) {
        Ok(email) => Ok(email.check()),
        Err(error) if error.code() == Code::InvalidJson => {
            let request = serde_json::from_slice::<serde_json::Value>(bytes);
            Err(request.err().map_or(error, |error| not_json(bytes, &error)))
        }
        Err(error) => Ok(Err(error)),
    }
}
