//! Rows of a table, as they are.

use http::StatusCode;

use crate::control::Page;
use crate::http::{ControlCall, Reply};
use crate::model::Result;
use crate::store::{Reader, Row};

/// Lists them, oldest first.
pub(crate) async fn list<R: Row + Send + 'static>(call: ControlCall) -> Result<Vec<R>> {
    call.data.list().await
}

/// Lists one page of them, oldest first.
pub(crate) async fn page<R: Row + Send + 'static>(
    call: ControlCall,
    id: fn(&R) -> &str,
) -> Result<Reply<Page<R>>> {
    let (limit, cursor) = (call.limit, call.cursor.unwrap_or_default());
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<R> = call.data.read(read).await?;
    Reply::json(
        StatusCode::OK,
        &Page::of(found, limit, |last| id(last).to_owned()),
    )
}

pub(crate) async fn get<R: Row + Send + 'static>(call: ControlCall) -> Result<R> {
    let id = call.id();
    call.data.read(move |reader, of| reader.get(&id, of)).await
}

pub(crate) async fn delete<R: Row + 'static>(call: ControlCall) -> Result<()> {
    let id = call.id();
    call.data
        .write(move |tx, _, of| tx.delete::<R>(&id, of))
        .await
}
