//! Blocking calls, for programs without an async runtime.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use futures_util::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::poll_proceed;

use super::{Call, Wait};
use crate::email::{Contact, ContactPages, ContactStream};
use crate::{Error, ErrorKind, List, Outcome};

/// Runs a future on this crate's own runtime and blocks until it is done.
fn block<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
    if in_async_code() {
        return Err(Error::config(
            "cannot block inside an async task; await the call, or use `spawn_blocking`",
        ));
    }
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("svc-sdk").enable_all().build().ok()
    });
    let Some(runtime) = runtime else {
        return Err(Error::config("cannot start the runtime's thread"));
    };
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The receiver is gone only if the waiting thread was terminated.
        let _ = done.send(AssertUnwindSafe(future).catch_unwind().await);
    });
    match result.recv() {
        Ok(Ok(response)) => Ok(response),
        // A callback, layer or attachment source of the application panicked.
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::ConnectionLost, Outcome::Unknown)),
    }
}

/// Whether this thread is currently polling a tokio task.
///
/// Blocking there would also block the connections that the same thread drives, including
/// those of this client, until the deadline. Threads that may block, such as those of
/// `spawn_blocking` and `block_in_place`, have a runtime handle as well. The difference:
/// tasks have a cooperative budget of at most 255 operations before they must yield. This
/// function spends the budget to see whether there is one, then restores it.
fn in_async_code() -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(before) = poll_proceed(&mut cx) else { return true };
    let is_spent = (0..=u8::MAX).any(|_| match poll_proceed(&mut cx) {
        Poll::Ready(more) => {
            // Keep the budget spent until the end, then restore it at once.
            more.made_progress();
            false
        }
        Poll::Pending => true,
    });
    drop(before);
    is_spent
}

impl<T: Send + 'static> Call<T>
where
    Self: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
{
    /// Sends the request and blocks the current thread until the call is done. For programs
    /// without an async runtime.
    ///
    /// Calling this from an async task fails, because it would block the thread and the
    /// connections that it drives. `await` the call there, or use
    /// `tokio::task::spawn_blocking`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), svc_sdk::Error> {
    /// let client = svc_sdk::EmailClient::builder("https://mail.example", "mk_…").build()?;
    /// let email = client.emails().get("eml_1").block()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Like awaiting it; also [`Config`](ErrorKind::Config) if called from an async task.
    ///
    /// # Panics
    ///
    /// If a callback, a layer, a key provider or an attachment's source of the application
    /// panics.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl<T: Send + 'static> Wait<T>
where
    Self: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
{
    /// Blocks the current thread until the wait is done. For programs without an async
    /// runtime.
    ///
    /// # Errors
    ///
    /// Like awaiting it; also [`Config`](ErrorKind::Config) if called from an async task.
    ///
    /// # Panics
    ///
    /// If a callback, a layer, a key provider or an attachment's source of the application
    /// panics.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl ContactStream {
    /// Returns a blocking iterator over the contacts, for programs without an async
    /// runtime.
    pub fn block_iter(self) -> impl Iterator<Item = Result<Contact, Error>> {
        let mut pages = self.pages().block_iter();
        let mut ready = List::<Contact>::default().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(contact) = ready.next() {
                    return Some(Ok(contact));
                }
                match pages.next()? {
                    Ok(page) => ready = page.into_iter(),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

impl ContactPages {
    /// Returns a blocking iterator over the pages, for programs without an async runtime.
    pub fn block_iter(self) -> impl Iterator<Item = Result<List<Contact>, Error>> {
        let mut pages = Some(self);
        std::iter::from_fn(move || {
            let mut rest = pages.take()?;
            let next = async move {
                let next = rest.next().await;
                (next, rest)
            };
            match block(next) {
                Ok((next, rest)) => {
                    pages = Some(rest);
                    next
                }
                Err(error) => Some(Err(error)),
            }
        })
    }
}
