//! For programs without a runtime: the same calls, waited for on this thread.

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

/// Runs a future on this crate's own runtime and waits for it.
fn block<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
    if in_async_code() {
        return Err(Error::config(
            "async code cannot wait on its thread; await the call, or block in `spawn_blocking`",
        ));
    }
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("svc-sdk").enable_all().build().ok()
    });
    let Some(runtime) = runtime else { return Err(Error::config("no thread could be started")) };
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Nobody waits any more: so be it.
        let _ = done.send(AssertUnwindSafe(future).catch_unwind().await);
    });
    match result.recv() {
        Ok(Ok(answer)) => Ok(answer),
        // A hook, a layer or a source of the caller's own: it is theirs to know.
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::ConnectionLost, Outcome::Unknown)),
    }
}

/// Whether this thread is in the middle of a tokio task.
///
/// Waiting there would hold up the connections that the same thread drives, this
/// client's own among them, until the deadline. Threads that may block, those of
/// `spawn_blocking` and `block_in_place`, are no such place although they have a
/// runtime too. What tells them apart is that tasks have a budget of operations
/// until they have to yield, of 255 at most: it is asked for, and given back.
fn in_async_code() -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(before) = poll_proceed(&mut cx) else { return true };
    let is_spent = (0..=u8::MAX).any(|_| match poll_proceed(&mut cx) {
        Poll::Ready(more) => {
            // Not to be given back one by one, but all at once.
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
    /// Makes the call and waits for it on this thread, for programs without a
    /// runtime.
    ///
    /// In async code, `await` it instead: there, this would hold up the thread,
    /// and with it the connections that awaited calls of this client have
    /// opened, so it is refused. `spawn_blocking` is a fine place.
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
    /// As when it is awaited, and an error of kind
    /// [`Config`](ErrorKind::Config) in async code.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl<T: Send + 'static> Wait<T>
where
    Self: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
{
    /// Waits on this thread, for programs without a runtime.
    ///
    /// # Errors
    ///
    /// As when it is awaited, and an error of kind
    /// [`Config`](ErrorKind::Config) in async code.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl ContactStream {
    /// The contacts, for programs without a runtime: `next` waits on this
    /// thread.
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
    /// The pages, for programs without a runtime: `next` waits on this thread.
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
