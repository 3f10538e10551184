//! Rows of a table, as they are.

use http::StatusCode;

use crate::api::framework::{ControlCall, Reply};
use crate::control::endpoint::Page;
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::rows::Row;

/// Lists them, oldest first.
pub(super) async fn list<R: Row + Send + 'static>(call: ControlCall) -> Result<Vec<R>, ApiError> {
    call.data
        .read(|reader, of| reader.page(of, "", i64::MAX))
        .await
}

/// Lists one page of them, oldest first.
pub(super) async fn page<R: Row + Send + 'static>(
    call: ControlCall,
    id: fn(&R) -> &str,
) -> Result<Reply<Page<R>>, ApiError> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<R> = call.data.read(read).await?;
    Reply::json(
        StatusCode::OK,
        &Page::of(found, limit, |last| id(last).to_owned()),
    )
}

pub(super) async fn get<R: Row + Send + 'static>(call: ControlCall) -> Result<R, ApiError> {
    let id = call.id();
    call.data.read(move |reader, of| reader.get(&id, of)).await
}

pub(super) async fn delete<R: Row + 'static>(call: ControlCall) -> Result<(), ApiError> {
    let id = call.id();
    call.data
        .write(move |tx, _, of| tx.delete::<R>(&id, of))
        .await
}
