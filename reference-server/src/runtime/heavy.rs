//! Computations that may take long, such as those on large messages, on blocking threads.

use tokio::task::spawn_blocking;

use crate::model::{Failure, Result};

/// Work on more bytes takes long.
const LARGE: usize = 128 << 10;

/// Does work on this many bytes: at once if they are few. Once begun, it ends even if the caller
/// does not wait for it.
pub(crate) async fn run_on<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if bytes > LARGE {
        run(work).await
    } else {
        work()
    }
}

/// Does work that may block, or take long for its size.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::internal(error)))
}
