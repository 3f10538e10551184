//! `Wait<T>` polls a resource until it is final or the deadline passes. Awaiting it, `changes` and
//! `polls` are views of one stream of polls. A retryable error is a `PollResult::Failed`, after
//! which the wait goes on; any other error ends it. The next poll is never sooner than
//! `Retry-After` asks for, and the last one is made at the deadline. Each poll is a `Call`, so it
//! is also retried by `send.rs`.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep_until};

use super::call::Call;
use super::pauses::MAX_TIMEOUT;
use crate::error::{Error, ErrorKind, Outcome};
use crate::names::debug_fields;
use crate::operation::Operation;

/// A wait for a resource to reach a final state, which polls the service.
///
/// Awaiting it returns the final state. [`changes`](Self::changes) returns a stream of
/// every change on the way. Returned by [`Emails::wait`](crate::email::Emails::wait) and
/// [`Domains::wait_until_verified`](crate::email::Domains::wait_until_verified).
///
/// Transient failures do not end the wait. After one with `Retry-After`, the next poll is
/// not sooner than the service asked for. The last poll is made at the deadline (5 minutes by
/// default, see [`timeout`](Self::timeout)) and takes at most a second. If that is not the final
/// state, or the service asks for a longer pause, the error has the kind [`Timeout`](ErrorKind::Timeout); its source is the last failure, if the last poll
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

impl<T: Clone + Send + 'static> Wait<T> {
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
        let is_done = self.is_done;
        let is_same = self.is_same;
        let mut last: Option<T> = None;
        self.run().filter_map(move |poll| {
            let change = match poll {
                Ok(PollResult::Failed(_)) => None,
                Ok(PollResult::State(now)) => {
                    let last = last.replace(now.clone());
                    let is_same = last.is_some_and(|last| is_same(&last, &now));
                    (!is_same || is_done(&now)).then_some(Ok(now))
                }
                Err(error) => Some(Err(error)),
            };
            ready(change)
        })
    }

    /// Returns a stream of every poll: each state, changed or not, and each transient failure.
    /// It ends with the final state or an error. For programs that report failures while they
    /// wait, or give up after some of them.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use futures_util::TryStreamExt;
    /// use svc_sdk::PollResult;
    ///
    /// let mut polls = client.emails().wait("eml_1").polls();
    /// while let Some(poll) = polls.try_next().await? {
    ///     match poll {
    ///         PollResult::State(email) => println!("{:?}", email.status),
    ///         PollResult::Failed(error) => eprintln!("trying again: {error}"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn polls(self) -> impl Stream<Item = Result<PollResult<T>, Error>> + Send + Unpin {
        self.run()
    }

    fn run(self) -> BoxStream<'static, Result<PollResult<T>, Error>> {
        // The clock cannot represent the deadline if the timeout is very long.
        let now = Instant::now();
        let deadline = now.checked_add(self.timeout).unwrap_or(now + MAX_TIMEOUT);
        let state = State {
            pause: None,
            deadline,
            failure: None,
            done: false,
            last: false,
            wait: self,
        };
        Box::pin(stream::try_unfold(state, |mut state| async move {
            if state.done {
                return Ok(None);
            }
            Ok(Some((state.next().await?, state)))
        }))
    }
}

impl<T: Clone + Send + 'static> IntoFuture for Wait<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let is_done = self.is_done;
        Box::pin(async move {
            let mut polls = self.run();
            while let Some(poll) = polls.try_next().await? {
                match poll {
                    PollResult::State(now) if is_done(&now) => return Ok(now),
                    _ => {}
                }
            }
            Err(Error::new(ErrorKind::Timeout, Outcome::Unknown))
        })
    }
}

/// The result of one poll of a [`Wait`], see [`Wait::polls`].
#[derive(Debug)]
#[non_exhaustive]
pub enum PollResult<T> {
    /// The state of the resource.
    State(T),
    /// A transient failure, after which the wait goes on until its deadline.
    Failed(Error),
}

struct State<T> {
    wait: Wait<T>,
    /// The pause before the next poll, without jitter.
    pause: Option<Duration>,
    deadline: Instant,
    /// The error of the last poll, if that failed.
    failure: Option<Error>,
    done: bool,
    /// Whether the poll at the deadline was made.
    last: bool,
}

/// How long the poll at the deadline may take.
const LAST_POLL: Duration = Duration::from_secs(1);

impl<T: 'static> State<T> {
    /// Polls once, after the pause.
    async fn next(&mut self) -> Result<PollResult<T>, Error> {
        if let Some(pause) = self.pause {
            let now = Instant::now();
            let failure = self.failure.take();
            let requested = failure.as_ref().and_then(Error::retry_after);
            let soonest = now.checked_add(requested.unwrap_or_default());
            if self.last || soonest.is_none_or(|soonest| soonest > self.deadline) {
                let error = Error::new(ErrorKind::Timeout, Outcome::Unknown)
                    .with_operation(self.wait.operation)
                    .with(|error| error.retry_after = requested);
                return Err(match failure {
                    Some(failure) => error.with_source(failure),
                    None => error,
                });
            }
            // Jitter, so that many waiting clients do not poll at the same moment.
            let pause = pause.mul_f64(0.75 + fastrand::f64() / 4.0);
            let next = now.checked_add(pause.max(requested.unwrap_or_default()));
            self.last = next.is_none_or(|next| next >= self.deadline);
            sleep_until(next.map_or(self.deadline, |next| next.min(self.deadline))).await;
        }

        self.pause = Some(match self.pause {
            None => self.wait.initial_interval,
            Some(pause) => pause.mul_f64(1.5).min(self.wait.max_interval),
        });
        let left = self.deadline.saturating_duration_since(Instant::now());
        let call = (self.wait.poll)();
        let left = if self.last { LAST_POLL } else { left };
        let shorter = left.min(call.shared.settings.timeout);
        match call.timeout(shorter).await {
            Ok(now) => {
                self.done = (self.wait.is_done)(&now);
                Ok(PollResult::State(now))
            }
            Err(error) if error.is_retryable() => {
                self.failure = Some(error.clone());
                Ok(PollResult::Failed(error))
            }
            Err(error) => Err(error),
        }
    }
}

debug_fields!(Wait<T>: operation, timeout);
