//! Long work of a handler, on a blocking thread, so that other requests go on.

use crate::model::error::ApiError;

/// Work on more bytes takes long.
const LARGE: usize = 128 << 10;

pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}

/// Like [`run`], for work on this many bytes: if they are few, it is done at once.
pub(crate) async fn run_on<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes > LARGE { run(work).await } else { work() }
}
