//! `/_sandbox/requests`: the newest requests to the documented operations.

use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json};
use crate::control::endpoint::Page;
use crate::control::faults::operation;
use crate::control::query::{Id, Position};
use crate::control::requests::{
    self as control, LoggedRequest, RecordedBody, RequestHandled, RequestQuery,
};
use crate::model::error::{ApiError, Problems};
use crate::model::redact::redact;
use crate::store::emails::Stored;
use crate::store::request_log::{self, LoggedBody, RequestLog};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox requests");
    r.control(control::LIST, list).links("$response.body#/data/0/id", "/_sandbox/requests/{");
    r.control(control::REQUEST, get);
}

/// Lists one page of the matching requests, newest first.
pub(crate) async fn list(
    call: ControlCall<(), RequestQuery>,
) -> Result<Json<Page<LoggedRequest>>, ApiError> {
    let RequestQuery { operation: name, status, key, after, limit, cursor } = &call.query;
    let mut problems = Problems::default();
    let wanted = name.as_deref().and_then(operation);
    if name.is_some() && wanted.is_none() {
        problems.add("operation", "must be an operation such as emails.send");
    }
    let statuses = status.as_deref().and_then(Statuses::parse);
    if status.is_some() && statuses.is_none() {
        problems.add("status", "must be a status such as 202, or a class such as 4xx");
    }
    problems.check()?;
    let matching = call.app().requests.list(call.organization).into_iter().filter(|request| {
        let is_after = match after {
            Some(Position::Time(time)) => request.started_at > *time,
            Some(Position::Id(id, _)) => request.id > *id,
            None => true,
        };
        is_after
            && cursor.as_ref().is_none_or(|Id(cursor, _)| request.id < *cursor)
            && wanted.is_none_or(|operation| request.operation == operation)
            && statuses
                .as_ref()
                .is_none_or(|wanted| request.status.is_some_and(|it| wanted.has(it)))
            && key.as_ref().is_none_or(|key| request.key.as_ref() == Some(key))
    });
    let found = matching.take(limit.0 + 1).map(|request| LoggedRequest::from(&*request));
    Json::of(&Page::of(found.collect(), limit.0, |last| last.summary.id.clone()))
}

/// Returns one request.
pub(crate) async fn get(call: ControlCall) -> Result<Json<LoggedRequest>, ApiError> {
    let found = find(&call.app().requests, call.organization, call.input.id());
    Json::of(&found.ok_or_else(|| ApiError::not_found("request"))?)
}

/// The request that sent an email.
pub(super) fn of_email(log: &RequestLog, email: &Stored) -> Option<LoggedRequest> {
    find(log, email.organization, email.request.as_deref()?)
}

fn find(log: &RequestLog, organization: i64, id: &str) -> Option<LoggedRequest> {
    let all = log.list(organization);
    all.iter().find(|request| request.id == id).map(|request| LoggedRequest::from(&**request))
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
