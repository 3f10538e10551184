//! `POST /api/v1/emails/batch`: every email is accepted or rejected on its own
//! (`docs/undocumented/services.md#batch-result`).

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use svc_sdk::{Dialect, Point};

use super::emails::{Origin, accept, apply_template, queue};
use super::request::{Checked, Limits, NewEmail};
use crate::api::framework::call;
use crate::api::framework::input::{check_syntax, object};
use crate::api::framework::{Call, Reply};
use crate::model::error::{ApiError, Code, ErrorObject};
use crate::model::status::Status;
use crate::runtime::heavy;
use crate::store::emails;

/// An array of emails, or an object with such an array.
#[derive(JsonSchema)]
#[schemars(rename = "CreateEmails", untagged)]
#[expect(
    dead_code,
    reason = "only for the OpenAPI description; every email is parsed on its own"
)]
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

pub(crate) async fn send(call: Call<New>) -> Result<Reply<Results>, ApiError> {
    let (app, bytes) = (Arc::clone(&call.data.app), call.input.json_bytes()?);
    let parse = move || parse(&bytes, &app.settings.dialect);
    let mut checked = heavy::run_on(call.input.bytes()?.len(), parse).await?;
    if let Some(stored) = call.repeated().await? {
        return Ok(stored);
    }
    for email in &mut checked {
        let Ok(checked) = email else { continue };
        if let Err(error) = apply_template(&call.data, checked).await {
            *email = Err(error);
        }
    }
    let mut origin = Origin::of(&call);
    let is_whole = call.dialect().is(Point::BatchMode, "all-or-nothing");
    let create = call.create(move |tx, _, _| {
        let tracking = origin.tracking(tx)?;
        let mut results = Vec::with_capacity(checked.len());
        for (index, email) in checked.into_iter().enumerate() {
            let accepted = email.and_then(|checked| accept(tx, &mut origin, &tracking, checked));
            results.push(match accepted {
                Ok((email, content)) => {
                    emails::insert(tx, &email, content)?;
                    queue(tx, &email)?;
                    Item::Accepted {
                        index,
                        id: email.shown.id,
                        status: email.shown.status,
                    }
                }
                Err(error) if is_whole || error.code().status().is_server_error() => {
                    return Err(error);
                }
                Err(error) => Item::Rejected {
                    index,
                    error: to_raw_value(&error.object()).map_err(ApiError::internal)?,
                },
            });
        }
        Ok(Results { results })
    });
    create.await
}

/// Parses an array of emails, or an object with such an array in `emails`. A pinned `batch-body` is
/// the only form.
fn parse(bytes: &[u8], dialect: &Dialect) -> Result<Vec<Result<Checked, ApiError>>, ApiError> {
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let pinned = dialect.pinned(Point::BatchBody);
    if pinned.is_some_and(|form| (form == "array") == is_object) {
        let message = match pinned {
            Some("array") | None => "must be a list of emails".to_owned(),
            Some(field) => format!("must be an object with the list of emails in {field}"),
        };
        return Err(ApiError::field("", message));
    }
    let emails: Vec<&RawValue> = if is_object {
        let mut fields = object::<BTreeMap<String, &RawValue>>(bytes)?;
        let field = match dialect.choice(Point::BatchBody) {
            "array" => "emails",
            field => field,
        };
        let emails = fields.remove(field).map(RawValue::get);
        let emails = emails.and_then(|emails| serde_json::from_str(emails).ok());
        emails.ok_or_else(|| ApiError::field(field, "must be a list of emails"))?
    } else if let Ok(emails) = serde_json::from_slice(bytes) {
        emails
    } else {
        check_syntax(bytes)?;
        return Err(ApiError::field(
            "",
            "must be a list of emails or {\"emails\": […]}",
        ));
    };
    if emails.is_empty() {
        return Err(ApiError::field("emails", "must contain at least one email"));
    }
    let most = Limits::of(dialect).batch;
    ApiError::at_most("emails", emails.len(), most, "emails")?;
    emails
        .into_iter()
        .map(|email| parse_email(bytes, email, dialect))
        .collect()
}

/// Parses one email. An invalid field fails only this email (inner error). Invalid JSON,
/// such as too many levels or half a surrogate pair, fails the request (outer error).
fn parse_email(
    bytes: &[u8],
    email: &RawValue,
    dialect: &Dialect,
) -> Result<Result<Checked, ApiError>, ApiError> {
    match call::parse::<NewEmail>(email.get().as_bytes(), dialect) {
        Ok(email) => Ok(email.check(dialect)),
        Err(error) if error.code() == Code::InvalidJson => {
            check_syntax(bytes)?;
            Err(error)
        }
        Err(error) => Ok(Err(error)),
    }
}
