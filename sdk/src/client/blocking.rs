//! Blocking calls, for programs without an async runtime.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::OnceLock;
use std::sync::mpsc;

use futures_util::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};

use super::call::Call;
use super::wait::Wait;
use crate::email::contacts::{Contact, ContactStream};
use crate::error::{Error, ErrorKind, Outcome};

/// Runs a future on this crate's own runtime and blocks until it is done.
fn block<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
    if Handle::try_current().is_ok() {
        return Err(Error::config(
            "cannot block inside an async runtime; await the call, or in `spawn_blocking` use \
             `Handle::current().block_on`",
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
    // Spans of the attempts belong to the caller's span.
    #[cfg(feature = "tracing")]
    let future = {
        use tracing::instrument::{Instrument, WithSubscriber};
        future.in_current_span().with_current_subscriber()
    };
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The receiver is gone only if the waiting thread was terminated.
        let _ = done.send(AssertUnwindSafe(future).catch_unwind().await);
    });
    match result.recv() {
        Ok(Ok(response)) => Ok(response),
        // A callback, header hook or key provider of the application panicked.
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::ConnectionLost, Outcome::Unknown)),
    }
}

impl<T: Send + 'static> Call<T>
where
    Self: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
{
    /// Sends the request and blocks the current thread until the call is done. For programs
    /// without an async runtime.
    ///
    /// Calling this inside an async runtime fails, because it would block the thread and the
    /// tasks that it drives. `await` the call there. In `tokio::task::spawn_blocking`, pass
    /// the call's future to `Handle::current().block_on`.
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
    /// Like awaiting it; also [`Config`](ErrorKind::Config) if called inside an async
    /// runtime.
    ///
    /// # Panics
    ///
    /// If a callback, a header hook or a key provider of the application panics.
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
    /// Like awaiting it; also [`Config`](ErrorKind::Config) if called inside an async
    /// runtime.
    ///
    /// # Panics
    ///
    /// If a callback, a header hook or a key provider of the application panics.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl ContactStream {
    /// Returns a blocking iterator over the contacts, for programs without an async
    /// runtime.
    pub fn block_iter(self) -> impl Iterator<Item = Result<Contact, Error>> {
        let mut contacts = Some(self);
        std::iter::from_fn(move || match block(contacts.take()?.into_future()) {
            Ok((contact, rest)) => {
                contacts = Some(rest);
                contact
            }
            Err(error) => Some(Err(error)),
        })
    }
}
