//! Polls a resource until it reaches a final state or a deadline passes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::{self, StreamExt};

use super::time::{Instant, sleep};
use super::transport::MAX_TIMEOUT;
use super::{BoxFuture, BoxStream, Call};
use crate::error::Target;
use crate::{Error, ErrorKind, Operation, Outcome};

/// A wait for a resource to reach a final state, which polls the service.
///
/// Awaiting it returns the final state. [`changes`](Self::changes) returns a stream of
/// every change on the way. Returned by [`Emails::wait`](crate::email::Emails::wait) and
/// [`Domains::wait_until_verified`](crate::email::Domains::wait_until_verified).
///
/// Transient failures do not end the wait. After one with `Retry-After`, the next poll is
/// not sooner than the service asked for. If the deadline passes first (5 minutes by default,
/// see [`timeout`](Self::timeout)), or the service asks for a longer pause, the error has the
/// kind [`Timeout`](ErrorKind::Timeout); its source is the last failure, if the last poll
/// failed, and [`Error::retry_after`] is that failure's.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
/// let email = client.emails().wait("eml_1").timeout(Duration::from_secs(60)).await?;
/// println!("{:?}", email.status);
/// # Ok(())
/// # }
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait<T> {
    operation: Operation,
    poll: Arc<dyn Fn() -> Call<T> + Send + Sync>,
    is_done: fn(&T) -> bool,
    is_same: fn(&T, &T) -> bool,
    timeout: Duration,
    initial_interval: Duration,
    max_interval: Duration,
}

impl<T> Wait<T> {
    pub(crate) fn new(
        operation: Operation,
        poll: impl Fn() -> Call<T> + Send + Sync + 'static,
        is_done: fn(&T) -> bool,
        is_same: fn(&T, &T) -> bool,
    ) -> Self {
        Self {
            operation,
            poll: Arc::new(poll),
            is_done,
            is_same,
            timeout: Duration::from_secs(300),
            initial_interval: Duration::from_millis(500),
            max_interval: Duration::from_secs(10),
        }
    }

    /// Sets the deadline of the wait. Default: 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the pause between two polls. It starts at `initial` and grows by half each
    /// time, up to `max`; up to a quarter of it is cut off at random. Default: 0.5 and 10
    /// seconds for an email, 2 and 30 seconds for a domain.
    pub fn poll_interval(mut self, initial: Duration, max: Duration) -> Self {
        self.initial_interval = initial.min(MAX_TIMEOUT);
        self.max_interval = max.min(MAX_TIMEOUT);
        self
    }
}

impl<T: Clone + Send + 'static> Wait<T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
{
    /// Returns a stream that yields the current state, then every change, and ends with the
    /// final state. After an error, the stream ends.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut changes = client.emails().wait("eml_1").changes();
    /// while let Some(email) = changes.try_next().await? {
    ///     println!("{:?}", email.status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn changes(self) -> impl Stream<Item = Result<T, Error>> + Send + Unpin {
        self.run()
    }

    fn run(self) -> BoxStream<Result<T, Error>> {
        // The clock cannot represent the deadline if the timeout is very long.
        let now = Instant::now();
        let deadline = now.checked_add(self.timeout).unwrap_or(now + MAX_TIMEOUT);
        let state =
            State { pause: None, deadline, last: None, failure: None, done: false, wait: self };
        let changes = stream::unfold(state, |mut state| async move {
            if state.done {
                return None;
            }
            let next = state.next().await;
            state.done |= next.is_err();
            Some((next, state))
        });
        // Polling the stream after its end returns `None` again.
        Box::pin(changes.fuse())
    }
}

impl<T: Clone + Send + 'static> IntoFuture for Wait<T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
{
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let is_done = self.is_done;
        Box::pin(async move {
            let mut changes = self.run();
            loop {
                match changes.next().await {
                    Some(Ok(now)) if !is_done(&now) => {}
                    Some(end) => return end,
                    None => return Err(Error::new(ErrorKind::Timeout, Outcome::Unknown)),
                }
            }
        })
    }
}

struct State<T> {
    wait: Wait<T>,
    /// The pause before the next poll, without jitter.
    pause: Option<Duration>,
    deadline: Instant,
    last: Option<T>,
    /// The failure of the last poll.
    failure: Option<Error>,
    done: bool,
}

impl<T: Clone> State<T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>>,
{
    /// Waits for the next change.
    async fn next(&mut self) -> Result<T, Error> {
        loop {
            if let Some(pause) = self.pause {
                // Jitter, so that many waiting clients do not poll at the same moment.
                let pause = pause.mul_f64(0.75 + fastrand::f64() / 4.0);
                let requested = self.failure.as_ref().and_then(Error::retry_after);
                let pause = pause.max(requested.unwrap_or_default()).min(MAX_TIMEOUT);
                if Instant::now() + pause >= self.deadline {
                    return Err(self.timed_out());
                }
                sleep(pause).await;
            }
            self.pause = Some(match self.pause {
                None => self.wait.initial_interval,
                Some(pause) => pause.mul_f64(1.5).min(self.wait.max_interval),
            });
            let left = self.deadline.saturating_duration_since(Instant::now());
            let call = (self.wait.poll)();
            let shorter = left.min(call.shared.settings.timeout);
            match call.timeout(shorter).await {
                Ok(now) => {
                    self.failure = None;
                    self.done = (self.wait.is_done)(&now);
                    let is_new =
                        self.last.as_ref().is_none_or(|last| !(self.wait.is_same)(last, &now));
                    self.last = Some(now.clone());
                    if is_new || self.done {
                        return Ok(now);
                    }
                }
                Err(error) if error.is_retryable() => {
                    self.failure = Some(error);
                    if Instant::now() >= self.deadline {
                        return Err(self.timed_out());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn timed_out(&mut self) -> Error {
        let error = Error::new(ErrorKind::Timeout, Outcome::Unknown)
            .with_target(Target::Operation(self.wait.operation));
        match self.failure.take() {
            Some(failure) => error.with_retry_after(failure.retry_after()).with_source(failure),
            None => error,
        }
    }
}

impl<T> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("operation", &self.operation)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
