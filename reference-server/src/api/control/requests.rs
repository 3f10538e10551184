//! `/_sandbox/requests`: the newest requests to the documented operations.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::query::{Position, Query};
use super::{Page, faults, organization, organization_param};
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::model::redact::redact;
pub use crate::model::request_log::RequestHandled;
use crate::model::request_log::{self, LoggedBody, RequestLog};
use crate::store::Reader;
use crate::store::emails::Stored;

/// A request to a documented operation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoggedRequest {
    /// What happened.
    #[serde(flatten)]
    pub summary: RequestHandled,
    /// The beginning of the body of the request; absent if it has none, or nothing read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<RecordedBody>,
    /// The beginning of the body of the response; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_body: Option<RecordedBody>,
}

/// The beginning of a body. Secrets in it are replaced by `[redacted]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RecordedBody")]
#[non_exhaustive]
pub struct RecordedBody {
    /// The first 4 KiB, as text.
    pub text: String,
    /// The size of the whole body, in bytes.
    pub size: usize,
    /// Whether the text is shorter than the body.
    pub truncated: bool,
}

/// Lists one page of the matching requests, newest first.
pub(crate) async fn list(input: Input) -> Result<Json<Page<LoggedRequest>>, ApiError> {
    let mut query = Query::of(&input);
    let operation = query
        .choice("operation", faults::operation, || "an operation such as emails.send".to_owned());
    let expected = || "a status such as 202, or a class such as 4xx".to_owned();
    let status = query.choice("status", Statuses::parse, expected);
    let key = query.text("key");
    let after = query.position("after", "req_", "a request");
    let (limit, cursor) = (query.limit(), query.cursor("req_"));
    query.check()?;
    let organization = resolve(&input).await?;
    let matching = input.app.requests.list(organization).into_iter().filter(|request| {
        let is_after = match &after {
            Some(Position::Time(time)) => request.started_at > *time,
            Some(Position::Id(id)) => request.id > *id,
            None => true,
        };
        is_after
            && cursor.as_ref().is_none_or(|cursor| request.id < *cursor)
            && operation.is_none_or(|operation| request.operation == operation)
            && status.as_ref().is_none_or(|wanted| request.status.is_some_and(|it| wanted.has(it)))
            && key.as_ref().is_none_or(|key| request.key.as_ref() == Some(key))
    });
    let found = matching.take(limit + 1).map(|request| LoggedRequest::from(&*request));
    Json::of(&Page::of(found.collect(), limit, |last| last.summary.id.clone()))
}

/// Returns one request.
pub(crate) async fn get(input: Input) -> Result<Json<LoggedRequest>, ApiError> {
    let organization = resolve(&input).await?;
    let all = input.app.requests.list(organization);
    let found = all.iter().find(|request| request.id == input.id());
    let found = found.ok_or_else(|| ApiError::not_found("request"))?;
    Json::of(&LoggedRequest::from(&**found))
}

async fn resolve(input: &Input) -> Result<i64, ApiError> {
    let (name, app) = (organization_param(input), Arc::clone(&input.app));
    let resolve = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    input.app.store.read(resolve).await
}

/// The request that sent an email.
pub(super) fn of_email(
    log: &RequestLog,
    organization: i64,
    email: &Stored,
) -> Option<LoggedRequest> {
    let id = email.request.as_ref()?;
    let request = log.list(organization).into_iter().find(|request| request.id == *id)?;
    Some(LoggedRequest::from(&*request))
}

/// A status, or a class of statuses.
enum Statuses {
    One(u16),
    Class(u16),
}

impl Statuses {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("xx") {
            Some(class) => {
                class.parse().ok().filter(|class| (1..=5).contains(class)).map(Self::Class)
            }
            None => text.parse().ok().filter(|status| (100..600).contains(status)).map(Self::One),
        }
    }

    const fn has(&self, status: u16) -> bool {
        match self {
            Self::One(wanted) => status == *wanted,
            Self::Class(class) => status / 100 == *class,
        }
    }
}

impl From<&request_log::LoggedRequest> for LoggedRequest {
    fn from(request: &request_log::LoggedRequest) -> Self {
        Self {
            summary: RequestHandled::from(request),
            request_body: request.request_body.as_ref().map(RecordedBody::from),
            response_body: request.response_body.as_ref().map(RecordedBody::from),
        }
    }
}

impl From<&LoggedBody> for RecordedBody {
    fn from(body: &LoggedBody) -> Self {
        Self {
            text: redact(&String::from_utf8_lossy(&body.start)),
            size: body.size,
            truncated: body.start.len() < body.size,
        }
    }
}
