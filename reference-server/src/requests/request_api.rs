//! `/_sandbox/requests`: the newest requests to the documented operations.

use crate::control::Page;
use crate::control::query::Position;
use crate::faults::fault_rules::find_operation;
use crate::http::ControlCall;
use crate::model::{Failure, MAX_SEARCHED, Result, Terms};
use crate::requests::request_wire::{LoggedRequest, RequestFilter, RequestHandled};

/// Lists one page of the matching requests, newest first.
pub(crate) async fn list(call: ControlCall<(), RequestFilter>) -> Result<Page<LoggedRequest>> {
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
    let all = call.app.requests.list(call.organization);
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
        .map(|(request, _)| request.redacted());
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
    is_in(request) && is_in(&request.redacted())
}

/// Returns one request.
pub(crate) async fn get(call: ControlCall) -> Result<LoggedRequest> {
    let found = call.app.requests.find(call.organization, &call.id());
    found.ok_or_else(|| Failure::not_found("request"))
}

/// The statuses that a status, such as `202`, or a class, such as `4xx`, stands for.
fn statuses(text: &str) -> Result<std::ops::Range<u16>> {
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
        Failure::field(
            "status",
            "must be a status such as 202, or a class such as 4xx",
        )
    };

    statuses.ok_or_else(invalid)
}
