//! Checks before sending, headers, responses, logging, limits and middleware.

/// Methods of both builders.
macro_rules! request_options {
    ($builder:ident) => {
        /// # Checks before sending
        impl $builder {
            /// Whether to check documented limits before sending, such as the number of
            /// recipients. Default: true. Ids that are empty or `.` or `..` are always
            /// rejected.
            pub fn local_checks(mut self, check: bool) -> Self {
                self.inner.settings.local_checks = check;
                self
            }

            /// Declares the scopes of the API key, for [`check_scopes`](Self::check_scopes) and
            /// error messages.
            pub fn scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
                self.inner.scopes = Some(scopes.into_iter().collect());
                self
            }

            /// Whether to reject a call before sending if the key is known to lack the required
            /// scope. Default: false.
            pub fn check_scopes(mut self, check: bool) -> Self {
                self.inner.settings.check_scopes = check;
                self
            }
        }

        /// # Requests and responses
        impl $builder {
            /// Sets the response headers to read the request id from; the first one present is
            /// used. Default: `x-request-id`, `request-id`, `x-amzn-requestid`, `cf-ray`.
            pub fn request_id_headers<T: Into<String>>(
                mut self,
                names: impl IntoIterator<Item = T>,
            ) -> Self {
                self.inner.request_id_headers = names.into_iter().map(Into::into).collect();
                self
            }

            /// Sets the maximum size of a response body in bytes. Default: 16 MiB.
            pub fn max_response_size(mut self, bytes: u64) -> Self {
                self.inner.settings.max_response_size = bytes;
                self
            }
        }

        /// # Logging, limits and middleware
        impl $builder {
            /// Adds a callback that runs after every attempt, for logs and metrics. It blocks
            /// the call, so it should return quickly. If this is called more than once, all
            /// callbacks run, in that order.
            pub fn on_attempt(
                mut self,
                observe: impl Fn(&Attempt<'_>) + Send + Sync + 'static,
            ) -> Self {
                self.inner.observers.push(observe);
                self
            }

            /// Limits the request rate to `per_second`, evenly spaced, with bursts of up to
            /// `burst` requests. No limit by default.
            ///
            /// All clones of the client share the limit. Waiting counts towards the call's
            /// deadline. A call that could only start after its deadline fails at once with
            /// [`RateLimited`](crate::ErrorKind::RateLimited); nothing is sent.
            #[cfg(feature = "rate-limit")]
            pub fn rate_limit(mut self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
                self.inner.rate_limit = Some((per_second, burst));
                self
            }

            /// Wraps every attempt in a tower layer. The layer added last is the outermost.
            /// Layers see the request as it is sent, including the API key.
            ///
            /// ```
            /// # fn main() -> Result<(), svc_sdk::Error> {
            /// use svc_sdk::{AttemptService, Body, EmailClient};
            /// use tower::ServiceExt;
            ///
            /// let traced = tower::layer::layer_fn(|inner: AttemptService| {
            ///     inner.map_request(|mut request: http::Request<Body>| {
            ///         let id = http::HeaderValue::from_static("00-4bf92f-00f067-01");
            ///         request.headers_mut().insert("traceparent", id);
            ///         request
            ///     })
            /// });
            /// let client = EmailClient::builder("https://mail.example", "k").layer(traced).build()?;
            /// # Ok(())
            /// # }
            /// ```
            #[cfg(feature = "tower")]
            pub fn layer<L, S>(mut self, layer: L) -> Self
            where
                L: tower_layer::Layer<AttemptService, Service = S> + Send + Sync + 'static,
                S: tower_service::Service<http::Request<Body>, Response = http::Response<Body>>,
                S: Clone + Send + Sync + 'static,
                S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
                S::Future: Send + 'static,
            {
                self.inner.layers.push(layer);
                self
            }
        }

        /// # Headers
        impl $builder {
            /// Adds a header to every request. It replaces a header of the same name. The header
            /// that carries the API key cannot be set.
            pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.inner.headers.push((name.into(), value.into()));
                self
            }

            /// Sets the `User-Agent` header. Default: `svc-sdk/VERSION`.
            pub fn user_agent(self, user_agent: impl Into<String>) -> Self {
                self.header(USER_AGENT.as_str(), user_agent)
            }
        }
    };
}

pub(super) use request_options;
