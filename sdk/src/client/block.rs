//! For programs without a runtime: the same calls, waited for on this thread.

use std::sync::OnceLock;
use std::sync::mpsc;

use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};

use super::{Call, Wait};
use crate::Error;
use crate::List;
use crate::email::{Contact, ContactPages, ContactStream};

/// Runs a future on this crate's own runtime and waits for it.
fn block<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("svc-sdk").enable_all().build().ok()
    });
    let Some(runtime) = runtime else { return Err(Error::config("no thread could be started")) };
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Nobody waits any more: so be it.
        let _ = done.send(future.await);
    });
    result.recv().map_err(|_| Error::config("the call panicked"))
}

impl<T: Send + 'static> Call<T>
where
    Self: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
{
    /// Makes the call and waits for it on this thread, for programs without a
    /// runtime.
    ///
    /// In an async function, `await` it instead: there, this would hold up the
    /// thread, and with it the connections that awaited calls of this client
    /// have opened. `spawn_blocking` is a fine place.
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
    /// As when it is awaited.
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
    /// As when it is awaited.
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
