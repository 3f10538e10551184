//! `/_sandbox/domains` and `/_sandbox/audiences`: domains, audiences and contacts, as the email
//! service has them.

use http::StatusCode;

use crate::api::framework::{ControlCall, Reply};
use crate::control::endpoint::Page;
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::audiences::Audience;
use crate::store::contacts::{self, Contact};
use crate::store::domains::Domain;

/// Lists one page of the domains, oldest first.
pub(crate) async fn list(call: ControlCall) -> Result<Reply<Page<Domain>>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<Domain> = call.data.read(read).await?;
    Reply::json(StatusCode::OK, &Page::of(found, limit, |last| last.id.clone()))
}

/// Lists one page of the audiences, oldest first.
pub(crate) async fn audiences(call: ControlCall) -> Result<Reply<Page<Audience>>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<Audience> = call.data.read(read).await?;
    Reply::json(StatusCode::OK, &Page::of(found, limit, |last| last.id.clone()))
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn contacts(call: ControlCall) -> Result<Reply<Page<Contact>>, ApiError> {
    let (audience, limit) = (call.id(), call.limit);
    let cursor = call.cursor.unwrap_or_default();
    let found = call.data.read(move |reader, organization| {
        reader.get::<Audience>(&audience, organization)?;
        contacts::list(reader, &audience, &cursor, limit as i64 + 1, 0)
    });
    Reply::json(StatusCode::OK, &Page::of(found.await?, limit, |last| last.id.clone()))
}
