//! `/_sandbox/domains` and `/_sandbox/audiences`: domains, audiences and contacts, as the email
//! service has them.

use svc_sdk::email as sdk;

use crate::api::email::audiences::Audience;
use crate::api::email::contacts::Contact;
use crate::api::email::domains::{View, view};
use crate::api::framework::control::Returns;
use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json};
use crate::control::domains as control;
use crate::control::endpoint::Page;
use crate::control::query::{Id, PageQuery};
use crate::model::error::ApiError;
use crate::store::{audiences, contacts, domains};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox domains and audiences");
    r.control(control::DOMAINS, list);
    r.control(control::AUDIENCES, audiences)
        .links("$response.body#/data/0/id", "/_sandbox/audiences/{");
    r.control(control::CONTACTS, contacts);
}

// These are documented resources, which the SDK reads.
impl Returns<Page<sdk::Domain>> for Json<Page<View<'static>>> {}
impl Returns<Page<sdk::Audience>> for Json<Page<Audience>> {}
impl Returns<Page<sdk::Contact>> for Json<Page<Contact>> {}

/// Lists one page of the domains, oldest first.
pub(crate) async fn list(
    call: ControlCall<(), PageQuery<sdk::Domain>>,
) -> Result<Json<Page<View<'static>>>, ApiError> {
    let (limit, cursor) = start(&call.query);
    let organization = call.organization;
    let found = call
        .app()
        .store
        .read(move |reader| domains::page(reader, organization, &cursor, limit as i64 + 1));
    let Page { data, next } = Page::of(found.await?, limit, |last| last.id.clone());
    Json::of(&Page { data: data.iter().map(|domain| view(domain, None)).collect(), next })
}

/// Lists one page of the audiences, oldest first.
pub(crate) async fn audiences(
    call: ControlCall<(), PageQuery<sdk::Audience>>,
) -> Result<Json<Page<Audience>>, ApiError> {
    let (limit, cursor) = start(&call.query);
    let organization = call.organization;
    let found = call
        .app()
        .store
        .read(move |reader| audiences::page(reader, organization, &cursor, limit as i64 + 1));
    Json::of(&Page::of(found.await?, limit, |last| last.id.clone()).map(Audience::from))
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn contacts(
    call: ControlCall<(), PageQuery<sdk::Contact>>,
) -> Result<Json<Page<Contact>>, ApiError> {
    let (limit, cursor) = start(&call.query);
    let (organization, audience) = (call.organization, call.id());
    let found = call.app().store.read(move |reader| {
        audiences::find(reader, &audience, organization)?;
        contacts::list_after(reader, &audience, &cursor, limit as i64 + 1)
    });
    Json::of(&Page::of(found.await?, limit, |last| last.id.clone()).map(Contact::from))
}

/// The limit of a page, and the ID that it begins after.
fn start<T>(query: &PageQuery<T>) -> (usize, String) {
    (query.limit.0, query.cursor.as_ref().map_or_else(String::new, |Id(id, _)| id.clone()))
}
