//! `/_sandbox/audiences/{id}/contacts`: contacts, as the email service has them.

use http::StatusCode;

use crate::api::framework::{ControlCall, Reply};
use crate::control::endpoint::Page;
use crate::model::error::ApiError;
use crate::store::audiences::Audience;
use crate::store::contacts::{self, Contact};

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn list(call: ControlCall) -> Result<Reply<Page<Contact>>, ApiError> {
    let (audience, limit) = (call.id(), call.limit);
    let cursor = call.cursor.unwrap_or_default();
    let found = call.data.read(move |reader, organization| {
        reader.get::<Audience>(&audience, organization)?;
        contacts::list(reader, &audience, &cursor, limit as i64 + 1, 0)
    });
    Reply::json(
        StatusCode::OK,
        &Page::of(found.await?, limit, |last| last.id.clone()),
    )
}
