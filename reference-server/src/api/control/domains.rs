//! `/_sandbox/domains` and `/_sandbox/audiences`: domains, audiences and contacts, as the email
//! service has them.

use http::StatusCode;

use crate::api::email::domains::{DomainJson, view};
use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Reply};
use crate::control::domains as control;
use crate::control::endpoint::Page;
use crate::control::query::{Id, PageQuery};
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::audiences::Audience;
use crate::store::contacts::{self, Contact};
use crate::store::domains::Domain;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox domains and audiences");
    r.control(control::DOMAINS, list);
    r.control(control::AUDIENCES, audiences);
    r.control(control::CONTACTS, contacts);
}

/// Lists one page of the domains, oldest first.
pub(crate) async fn list(
    call: ControlCall<(), PageQuery>,
) -> Result<Reply<Page<DomainJson>>, ApiError> {
    let (limit, cursor) = start(call.query);
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<Domain> = call.data.read(read).await?;
    let Page { data, next } = Page::of(found, limit, |last| last.id.clone());
    let data = data.into_iter().map(|domain| view(domain, None)).collect::<Vec<_>>();
    Reply::json(StatusCode::OK, &Page { data, next })
}

/// Lists one page of the audiences, oldest first.
pub(crate) async fn audiences(
    call: ControlCall<(), PageQuery<String>>,
) -> Result<Reply<Page<Audience>>, ApiError> {
    // A seed file may give an audience any ID.
    let (limit, cursor) = (call.query.limit.0, call.query.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<Audience> = call.data.read(read).await?;
    Reply::json(StatusCode::OK, &Page::of(found, limit, |last| last.id.clone()))
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn contacts(
    call: ControlCall<(), PageQuery>,
) -> Result<Reply<Page<Contact>>, ApiError> {
    let (audience, (limit, cursor)) = (call.id(), start(call.query));
    let found = call.data.read(move |reader, organization| {
        reader.get::<Audience>(&audience, organization)?;
        contacts::list(reader, &audience, &cursor, limit as i64 + 1, 0)
    });
    Reply::json(StatusCode::OK, &Page::of(found.await?, limit, |last| last.id.clone()))
}

/// The limit of a page, and the ID that it begins after.
fn start(query: PageQuery) -> (usize, String) {
    (query.limit.0, query.cursor.map(|Id(id)| id).unwrap_or_default())
}
