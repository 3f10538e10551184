//! `/_sandbox/domains` and `/_sandbox/audiences`: domains, audiences and contacts, as the email
//! service has them.

use crate::api::email::domains::{DomainJson, view};
use crate::api::framework::{ControlCall, Json};
use crate::control::endpoint::Page;
use crate::model::error::ApiError;
use crate::store::audiences::Audience;
use crate::store::contacts::Contact;
use crate::store::{Reader, audiences, contacts, domains};

/// Lists one page of the domains, oldest first.
pub(crate) async fn list(call: ControlCall) -> Result<Json<Page<DomainJson<'static>>>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| domains::page(reader, of, &cursor, limit as i64 + 1);
    let Page { data, next } = Page::of(call.data.read(read).await?, limit, |last| last.id.clone());
    Json::of(&Page { data: data.iter().map(|domain| view(domain, None)).collect(), next })
}

/// Lists one page of the audiences, oldest first.
pub(crate) async fn audiences(call: ControlCall) -> Result<Json<Page<Audience>>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| audiences::page(reader, of, &cursor, limit as i64 + 1);
    let found = call.data.read(read).await?;
    Json::of(&Page::of(found, limit, |last| last.id.clone()))
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn contacts(call: ControlCall) -> Result<Json<Page<Contact>>, ApiError> {
    let (audience, limit) = (call.id(), call.limit);
    let cursor = call.cursor.unwrap_or_default();
    let found = call.data.read(move |reader, organization| {
        audiences::find(reader, &audience, organization)?;
        contacts::list_after(reader, &audience, &cursor, limit as i64 + 1)
    });
    Json::of(&Page::of(found.await?, limit, |last| last.id.clone()))
}
