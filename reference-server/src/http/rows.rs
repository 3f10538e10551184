//! Rows of a table, as they are: handlers of both kinds of calls.

use std::ops::Deref;

use http::StatusCode;

use crate::control::Page;
use crate::http::{ControlCall, Input, Reply};
use crate::model::Result;
use crate::store::{Reader, Row};

/// Lists them, oldest first.
pub(crate) async fn list<R, C>(call: C) -> Result<Vec<R>>
where
    R: Row + Send + 'static,
    C: Deref<Target = Input>,
{
    let read = |reader: Reader<'_>, of| {
        let rows = reader.list(of)?;
        Ok(rows)
    };
    call.read(read).await
}

/// Lists one page of them, oldest first.
pub(crate) async fn page<R: Row + Send + 'static>(
    call: ControlCall,
    id: fn(&R) -> &str,
) -> Result<Reply<Page<R>>> {
    let limit = call.limit;
    let cursor = call.cursor.unwrap_or_default();
    let read = move |reader: Reader<'_>, of| reader.page(of, &cursor, limit as i64 + 1);
    let found: Vec<R> = call.input.read(read).await?;
    Reply::json(
        StatusCode::OK,
        &Page::of(found, limit, |last| id(last).to_owned()),
    )
}

pub(crate) async fn get<R, C>(call: C) -> Result<R>
where
    R: Row + Send + 'static,
    C: Deref<Target = Input>,
{
    let id = call.id();
    call.read(move |reader, of| reader.get(&id, of)).await
}

pub(crate) async fn delete<R, C>(call: C) -> Result<()>
where
    R: Row + 'static,
    C: Deref<Target = Input>,
{
    let id = call.id();
    call.write(move |tx, _, of| tx.delete::<R>(&id, of)).await
}
