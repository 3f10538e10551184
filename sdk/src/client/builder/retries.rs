//! Timeouts and retries.

/// Methods of both builders.
macro_rules! retry_options {
    ($builder:ident) => {
        /// # Timeouts
        impl $builder {
            /// Sets the deadline of a call, including all attempts and the pauses between them.
            /// Default: 30 seconds. A single call can override it with
            /// [`Call::timeout`](crate::Call::timeout).
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.inner.settings.timeout = timeout;
                self
            }

            /// Sets the time limit of each attempt, from the start of the connection to the end
            /// of the response. Default: a third of the deadline, see below. A single call can
            /// override it with [`Call::attempt_timeout`](crate::Call::attempt_timeout).
            ///
            /// An attempt that takes longer fails with [`Timeout`](crate::ErrorKind::Timeout),
            /// and the call is retried if that is safe. A send that was already transmitted is
            /// not retried, and its outcome is unknown.
            ///
            /// The default limit only ends attempts that can be retried: those of idempotent
            /// calls, and others as long as no connection has taken the request. It does not
            /// apply to the last attempt of a call, and not to requests with streamed
            /// attachments that are being sent.
            pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
                self.inner.settings.attempt_timeout = Some(timeout);
                self
            }

            /// Sets the time limit for establishing a connection, TLS handshake included.
            /// Default: 10 seconds.
            pub fn connect_timeout(mut self, timeout: Duration) -> Self {
                self.inner.http.connect_timeout = timeout;
                self
            }
        }

        /// # Retries
        impl $builder {
            /// Sets the maximum number of retries per call. Default: 2; 0 disables retries.
            ///
            /// A 429 with `Retry-After` does not count: the call is repeated as often as its
            /// deadline allows.
            ///
            /// Calls that are not idempotent are retried only if the failed attempt was
            /// certainly not processed, see [Retries](crate#retries).
            pub fn retries(mut self, retries: u32) -> Self {
                self.inner.settings.retries = retries;
                self
            }

            /// Sets the longest `Retry-After` that the client waits for. Default: 60 seconds.
            /// If the service asks for more, the call fails at once.
            ///
            /// A 429 with `Retry-After` holds back all clones of the client. When the pause is
            /// over, their calls start in order, and few at first. A call fails at once if the
            /// pause ends after its deadline.
            pub fn max_retry_after(mut self, max: Duration) -> Self {
                self.inner.settings.max_retry_after = max;
                self
            }

            /// Sets the back-off between attempts, for responses without `Retry-After`. The
            /// upper limit of the first pause is `initial`; it doubles with each attempt up to
            /// `max`. Default: 250 milliseconds and 8 seconds.
            ///
            /// The actual pause is chosen at random between zero and that limit (full jitter),
            /// so that clients do not retry in lockstep.
            pub fn back_off(mut self, initial: Duration, max: Duration) -> Self {
                let max = max.min(MAX_TIMEOUT);
                self.inner.settings.back_off = BackOff { initial, max };
                self
            }

            /// Sets the retry budget that all clones of the client share. Each retry takes one
            /// from it, except after a 429 with `Retry-After`. Every ten successful attempts put
            /// one back, and an empty budget is full again after a minute. Default: 50.
            ///
            /// While it is spent, failed attempts are not retried, and the error says so. This
            /// limits the load on a service that is down.
            pub fn retry_budget(mut self, retries: u32) -> Self {
                self.inner.retry_budget = retries;
                self
            }

            /// Declares that the service honors `Idempotency-Key`. Default: false.
            ///
            /// If true, calls with an idempotency key are also retried after ambiguous
            /// failures. See `docs/undocumented/both-services.md#idempotency`.
            pub fn service_honors_idempotency_key(mut self, honors: bool) -> Self {
                self.inner.settings.honors_idempotency_key = honors;
                self
            }
        }
    };
}

pub(super) use retry_options;
