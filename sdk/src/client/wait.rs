//! Waiting until something is so: asking again and again, with growing pauses,
//! until a deadline.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::{self, StreamExt};

use super::time::{Instant, sleep};
use super::transport::CENTURY;
use super::{BoxFuture, BoxStream, Call};
use crate::error::Target;
use crate::{Error, ErrorKind, Operation, Outcome};

/// A wait that is about to begin. Awaited, it gives what was waited for;
/// [`changes`](Self::changes) gives every change on the way.
///
/// A failure that may pass does not end the wait, the deadline does: with an
/// error of kind [`Timeout`](ErrorKind::Timeout).
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
    ask: Arc<dyn Fn() -> Call<T> + Send + Sync>,
    is_over: fn(&T) -> bool,
    is_same: fn(&T, &T) -> bool,
    timeout: Duration,
    first_pause: Duration,
    longest_pause: Duration,
}

impl<T> Wait<T> {
    pub(crate) fn new(
        operation: Operation,
        ask: impl Fn() -> Call<T> + Send + Sync + 'static,
        is_over: fn(&T) -> bool,
        is_same: fn(&T, &T) -> bool,
    ) -> Self {
        Self {
            operation,
            ask: Arc::new(ask),
            is_over,
            is_same,
            timeout: Duration::from_secs(300),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(10),
        }
    }

    /// How long to wait at most; 5 minutes by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The pauses between two looks: the first one, half as long again each
    /// time, up to the longest. By default 0.5 s and 10 s for an email, 2 s
    /// and 30 s for a domain.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = first.min(CENTURY);
        self.longest_pause = longest.min(CENTURY);
        self
    }
}

impl<T: Clone + Send + 'static> Wait<T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
{
    /// The first look and then every change, the final one last. A stream that
    /// ends with an error ends after it.
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
        // Beyond what the clock can tell, a century will do.
        let now = Instant::now();
        let deadline = now.checked_add(self.timeout).unwrap_or(now + CENTURY);
        let state = State { pause: Duration::ZERO, deadline, last: None, over: false, wait: self };
        let changes = stream::unfold(state, |mut state| async move {
            if state.over {
                return None;
            }
            let next = state.next().await;
            state.over |= next.is_err();
            Some((next, state))
        });
        // Who asks again after the end hears that it is the end.
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
        let is_over = self.is_over;
        Box::pin(async move {
            let mut changes = self.run();
            loop {
                match changes.next().await {
                    Some(Ok(now)) if !is_over(&now) => {}
                    Some(end) => return end,
                    None => return Err(Error::new(ErrorKind::Timeout, Outcome::Unknown)),
                }
            }
        })
    }
}

struct State<T> {
    wait: Wait<T>,
    pause: Duration,
    deadline: Instant,
    last: Option<T>,
    over: bool,
}

impl<T: Clone> State<T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>>,
{
    /// The next change.
    async fn next(&mut self) -> Result<T, Error> {
        loop {
            if self.pause > Duration::ZERO {
                // Not all who wait look at the same moment.
                let pause = self.pause.mul_f64(0.75 + fastrand::f64() / 4.0);
                if Instant::now() + pause >= self.deadline {
                    return Err(self.timed_out(None));
                }
                sleep(pause).await;
            }
            self.pause = if self.pause.is_zero() {
                self.wait.first_pause
            } else {
                self.pause.mul_f64(1.5).min(self.wait.longest_pause)
            };
            let left = self.deadline.saturating_duration_since(Instant::now());
            let call = (self.wait.ask)();
            let shorter = left.min(call.shared.settings.timeout);
            match call.timeout(shorter).await {
                Ok(now) => {
                    self.over = (self.wait.is_over)(&now);
                    let is_new =
                        self.last.as_ref().is_none_or(|last| !(self.wait.is_same)(last, &now));
                    self.last = Some(now.clone());
                    if is_new || self.over {
                        return Ok(now);
                    }
                }
                Err(error) if error.is_retryable() && Instant::now() < self.deadline => {}
                Err(error) if error.is_retryable() => return Err(self.timed_out(Some(error))),
                Err(error) => return Err(error),
            }
        }
    }

    fn timed_out(&self, cause: Option<Error>) -> Error {
        let error = Error::new(ErrorKind::Timeout, Outcome::Unknown)
            .with_target(Target::Operation(self.wait.operation));
        match cause {
            Some(cause) => error.with_source(cause),
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
