//! Responses that a blocking thread writes while they are sent. A large one is never whole in memory,
//! and the thread that took the memory of its content gives it back: what another thread gives back,
//! the allocator keeps until the first one ends.

use std::convert::Infallible;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::http::control::{Returns, describe};
use crate::http::response::content;
use crate::model::{Failure, Result};
use crate::runtime::memory::Reserved;

/// A response with the JSON of a `T`.
pub(crate) struct Written<T> {
    response: Response<Body>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + 'static> Written<T> {
    /// The JSON of what `make` returns. It has the memory until it is sent.
    pub(crate) async fn json(
        memory: Reserved,
        make: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let open = move || {
            let value = make()?;
            let write = move |to: &mut dyn Write| Ok(serde_json::to_writer(to, &value)?);
            Ok((content("application/json", Body::empty()), write))
        };
        Ok(Self {
            response: written(memory, open).await?,
            of: PhantomData,
        })
    }
}

impl<T: JsonSchema + 'static> Returns<T> for Written<T> {
    fn describe(generator: &mut SchemaGenerator) -> Option<Schema> {
        describe::<T>(generator)
    }

    fn respond(mut self, status: StatusCode) -> Result<Response<Body>> {
        *self.response.status_mut() = status;
        Ok(self.response)
    }
}

/// A response whose body is written by what `open` returns beside its head. Both have the memory
/// until it is sent, or the client is gone.
pub(crate) async fn written<W>(
    memory: Reserved,
    open: impl FnOnce() -> Result<(Response<Body>, W)> + Send + 'static,
) -> Result<Response<Body>>
where
    W: FnOnce(&mut dyn Write) -> io::Result<()>,
{
    let (opened, head) = oneshot::channel();
    let (sender, mut pieces) = mpsc::channel(PIECES);
    spawn_blocking(move || {
        // Dropped last.
        let _memory = memory;
        let (head, write) = match open() {
            Ok((head, write)) => (Ok(head), Some(write)),
            Err(error) => (Err(error), None),
        };
        let is_awaited = opened.send(head).is_ok();
        if let Some(write) = write.filter(|_| is_awaited) {
            let mut to = BufWriter::with_capacity(PIECE, Pieces(sender));
            // It fails if the client is gone.
            let _ = write(&mut to).and_then(|()| to.flush());
        }
    });
    let response = head.await.map_err(Failure::internal)??;

    let first = pieces.recv().await.unwrap_or_default();
    let Some(second) = pieces.recv().await else {
        return Ok(response.map(|_| first.into()));
    };

    let next = async |mut pieces: mpsc::Receiver<Bytes>| Some((pieces.recv().await?, pieces));
    let all = stream::iter([first, second]).chain(stream::unfold(pieces, next));
    Ok(response.map(|_| Body::from_stream(all.map(Ok::<_, Infallible>))))
}

/// The size of a piece of a body, and how many may wait to be sent.
const PIECE: usize = 64 << 10;
const PIECES: usize = 8;

struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(PIECE)]);
        let written = piece.len();
        match self.0.blocking_send(piece) {
            Ok(()) => Ok(written),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
