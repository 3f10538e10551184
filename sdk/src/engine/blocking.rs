//! Blocking calls, for programs without an async runtime.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use super::call::Call;
use super::wait::Wait;
use crate::error::Error;

/// Runs a future on this thread, and its I/O on a thread of this crate.
pub(crate) fn block<F: Future>(future: F) -> Result<F::Output, Error> {
    if Handle::try_current().is_ok() {
        return Err(Error::config(
            "cannot block inside an async runtime; await the call, or in `spawn_blocking` use \
             `Handle::current().block_on`",
        ));
    }

    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .thread_name("svc-sdk")
            .enable_all()
            // Timers are looked at after each turn of a task: 61 turns, the default, would outlive
            // the timeout of a call that reads informational responses without an end.
            .event_interval(1)
            .build()
            .ok()
    });
    match runtime {
        Some(runtime) => Ok(runtime.block_on(future)),
        None => Err(Error::config("cannot start the runtime's thread")),
    }
}

impl<T: 'static> Call<T> {
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
    /// Like awaiting it; also [`Config`](crate::ErrorKind::Config) if called inside an async
    /// runtime.
    ///
    /// # Panics
    ///
    /// If a callback, a header hook or a key provider of the application panics.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}

impl<T: Clone + Send + 'static> Wait<T> {
    /// Blocks the current thread until the wait is done. For programs without an async
    /// runtime.
    ///
    /// # Errors
    ///
    /// Like awaiting it; also [`Config`](crate::ErrorKind::Config) if called inside an async
    /// runtime.
    ///
    /// # Panics
    ///
    /// If a callback, a header hook or a key provider of the application panics.
    pub fn block(self) -> Result<T, Error> {
        block(self.into_future())?
    }
}
