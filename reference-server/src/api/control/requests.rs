//! `/_sandbox/requests`: the newest requests to the documented operations.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Operation;

use super::query::{Position, Query};
use super::{Page, organization, organization_param};
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::model::redact::redact;
use crate::model::request_log::{self, LoggedBody, RequestLog};
use crate::model::timestamp::Timestamp;
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

/// A request to a documented operation, without its bodies.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequestHandled {
    /// The ID, `req_…`, which is the `X-Request-Id` of the response.
    pub id: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// The operation, such as `emails.send`.
    pub operation: String,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The ID of the key; null if the request had no valid one.
    pub key: Option<String>,
    /// The status of the response; null if none was sent, because the client was gone or a fault
    /// cut the connection.
    pub status: Option<u16>,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: f64,
    /// When it began, by the server's clock.
    pub started_at: Timestamp,
    /// The ID of the fault that affected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The `Idempotency-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
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
    let operation = query.choice(
        "operation",
        |name| Operation::ALL.iter().copied().find(|operation| operation.to_string() == name),
        || "an operation such as emails.send".to_owned(),
    );
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

/// The request that sent an email: its response has the ID.
pub(super) fn of_email(
    log: &RequestLog,
    organization: i64,
    email: &Stored,
) -> Option<LoggedRequest> {
    let sends = [Operation::EmailsSend, Operation::EmailsSendBatch];
    let requests = log.list(organization).into_iter();
    let mut sends = requests.filter(|request| sends.contains(&request.operation));
    let id = email.id.as_bytes();
    let has_id = |request: &Arc<request_log::LoggedRequest>| {
        let body = request.response_body.as_ref();
        body.is_some_and(|body| body.start.windows(id.len()).any(|part| part == id))
    };
    sends.find(has_id).map(|request| LoggedRequest::from(&*request))
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

impl From<&request_log::LoggedRequest> for RequestHandled {
    fn from(request: &request_log::LoggedRequest) -> Self {
        let operation = request.operation;
        Self {
            id: request.id.clone(),
            service: operation.service().as_str().to_owned(),
            operation: operation.to_string(),
            method: operation.method().as_str().to_owned(),
            path: request.path.clone(),
            key: request.key.clone(),
            status: request.status,
            duration_ms: request.duration.as_micros() as f64 / 1000.0,
            started_at: request.started_at.into(),
            fault: request.fault.clone(),
            idempotency_key: request.idempotency_key.clone(),
            user_agent: request.user_agent.clone(),
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
