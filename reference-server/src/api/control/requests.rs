//! `/_sandbox/requests`: the newest requests to the documented operations.

use crate::api::framework::ControlCall;
use crate::control::endpoint::Page;
use crate::control::faults::find_operation;
use crate::control::query::Position;
use crate::control::requests::{LoggedRequest, RequestFilter, RequestHandled};
use crate::model::error::ApiError;
use crate::model::redact::redact;
use crate::model::terms::{MAX_SEARCHED, Terms};
use crate::store::emails::StoredEmail;
use crate::store::request_log::RequestLog;

/// Lists one page of the matching requests, newest first.
pub(crate) async fn list(
    call: ControlCall<(), RequestFilter>,
) -> Result<Page<LoggedRequest>, ApiError> {
    let RequestFilter {
        operation: name,
        status,
        key,
        search,
        after,
    } = &call.query;
    let terms = search.as_deref().map(Terms::new);
    let searched = if terms.is_some() {
        MAX_SEARCHED
    } else {
        usize::MAX
    };
    let after = Position::read("after", after.as_deref())?;
    let wanted = name.as_deref().map(find_operation).transpose()?;
    let wanted = wanted.map(|operation| (operation.service(), operation.name()));
    let statuses = status.as_deref().map(statuses).transpose()?;
    let all = call.data.app.requests.list(call.data.organization);
    let matching = all.iter().map(|request| (request, &request.summary));
    let matching = matching.take(searched).filter(|(logged, request)| {
        let is_after = match &after {
            Some(Position::Time(time)) => request.started_at > (*time).into(),
            Some(Position::Uuid(uuid)) => request.id.trim_start_matches("req_") > uuid.as_str(),
            None => true,
        };
        is_after
            && call
                .cursor
                .as_ref()
                .is_none_or(|cursor| request.id < *cursor)
            && wanted.is_none_or(|(service, name)| {
                request.operation == name && request.service == service.as_str()
            })
            && statuses.as_ref().is_none_or(|wanted| {
                request
                    .status
                    .is_some_and(|status| wanted.contains(&status))
            })
            && key
                .as_ref()
                .is_none_or(|key| request.key.as_ref() == Some(key))
            && terms.as_ref().is_none_or(|terms| contains(logged, terms))
    });
    let found = matching
        .take(call.limit + 1)
        .map(|(request, _)| redacted(request));
    Ok(Page::of(found.collect(), call.limit, |last| {
        last.summary.id.clone()
    }))
}

fn contains(request: &LoggedRequest, terms: &Terms) -> bool {
    let is_in = |request: &LoggedRequest| {
        let RequestHandled {
            id,
            service,
            operation,
            method,
            path,
            status,
            ..
        } = &request.summary;
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        let bodies = [&request.request_body, &request.response_body]
            .into_iter()
            .flatten();
        let texts = [id, service, operation, method, path, &status].into_iter();
        terms.are_in(
            texts
                .chain(bodies.map(|body| &body.text))
                .map(String::as_str),
        )
    };
    // A secret is not found. Redacting takes longer than searching.
    is_in(request) && is_in(&redacted(request))
}

/// The request without the secrets of its bodies.
fn redacted(request: &LoggedRequest) -> LoggedRequest {
    let mut request = request.clone();
    for body in [&mut request.request_body, &mut request.response_body]
        .into_iter()
        .flatten()
    {
        body.text = redact(&body.text);
    }
    request
}

/// Returns one request.
pub(crate) async fn get(call: ControlCall) -> Result<LoggedRequest, ApiError> {
    let found = find(&call.data.app.requests, call.data.organization, &call.id());
    found.ok_or_else(|| ApiError::not_found("request"))
}

/// The request that sent an email.
pub(super) fn of_email(log: &RequestLog, email: &StoredEmail) -> Option<LoggedRequest> {
    find(log, email.organization, email.request.as_deref()?)
}

fn find(log: &RequestLog, organization: i64, id: &str) -> Option<LoggedRequest> {
    let all = log.list(organization);
    all.iter()
        .find(|request| request.summary.id == id)
        .map(|found| redacted(found))
}

/// The statuses that a status, such as `202`, or a class, such as `4xx`, stands for.
fn statuses(text: &str) -> Result<std::ops::Range<u16>, ApiError> {
    let (digits, count) = text
        .strip_suffix("xx")
        .map_or((text, 1), |class| (class, 100));
    let first = digits
        .parse::<u16>()
        .ok()
        .and_then(|digits| digits.checked_mul(count));
    let statuses = first
        .filter(|first| (100..600).contains(first))
        .map(|it| it..it + count);
    let invalid = || {
        ApiError::field(
            "status",
            "must be a status such as 202, or a class such as 4xx",
        )
    };
    statuses.ok_or_else(invalid)
}
