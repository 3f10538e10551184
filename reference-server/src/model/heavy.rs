//! Long computations, such as those on large messages: few at a time, on threads of their own, so
//! that short requests of others find a processor.

use std::sync::{Arc, LazyLock};

use tokio::sync::{Semaphore, oneshot};

use crate::model::error::ApiError;

/// Work on more bytes takes long.
const LARGE: usize = 128 << 10;

/// Whether work on this many bytes takes long.
pub(crate) const fn is_long(bytes: usize) -> bool {
    bytes > LARGE
}

/// Does long work. It leaves at least one processor to others, if there are two, and waits while
/// other long work takes the rest. Once begun, it ends even if the caller does not wait for it.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Semaphore::new((processors - 1).max(1)))
    });
    // The semaphore is never closed.
    let turn = Arc::clone(&FREE).acquire_owned().await;
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("svc-heavy".to_owned());
    let spawned = thread.spawn(move || {
        let _turn = turn;
        // The receiver is gone if the client has disconnected.
        let _ = sender.send(work());
    });
    spawned.map_err(ApiError::internal)?;
    receiver.await.unwrap_or_else(|_| Err(ApiError::internal("a computation panicked")))
}

/// Does work on this many bytes: at once if they are few.
pub(crate) async fn run_on<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if is_long(bytes) { run(work).await } else { work() }
}

/// Like [`run_on`], but never on this thread: the work may block, or take long for its size.
pub(crate) async fn run_aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if is_long(bytes) {
        return run(work).await;
    }
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn long_work_leaves_a_processor_to_others() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let works = (0..processors + 4).map(|number| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            run_on(LARGE + 1, move || {
                most.fetch_max(1 + running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(number)
            })
        });
        let done = futures_util::future::join_all(works).await;
        let done: Vec<usize> = done.into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(done, (0..processors + 4).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= (processors - 1).max(1));
        // A panic ends one computation, and no other.
        assert!(run::<()>(|| panic!("intentional panic of this test")).await.is_err());
        assert!(run(|| Ok(())).await.is_ok());
    }
}
