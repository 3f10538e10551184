//! The HTTP client and TLS.

/// Methods of both builders.
macro_rules! connection_options {
    ($builder:ident) => {
        /// # HTTP and TLS
        impl $builder {
            /// Configures the HTTP client with reqwest's own options, such as a DNS resolver, a
            /// local address, or the number of idle connections.
            ///
            /// The function gets a builder on which this builder's proxy and connect timeout are
            /// set. Redirects, retries and TLS remain as this crate sets them: use
            /// [`attempt_timeout`](Self::attempt_timeout), [`retries`](Self::retries),
            /// `ca_bundle`, `platform_certificates` and `native_tls` instead. The function runs
            /// once in `build`, and once in each further runtime that uses the client.
            ///
            /// ```
            /// # fn main() -> Result<(), svc_sdk::Error> {
            /// let client = svc_sdk::EmailClient::builder("http://127.0.0.1:4080", "mk_…")
            ///     .configure_http(|http| http.pool_max_idle_per_host(4))
            ///     .build()?;
            /// # Ok(())
            /// # }
            /// ```
            #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
            pub fn configure_http(
                mut self,
                configure: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.inner.http.configure = Some(std::sync::Arc::new(configure));
                self
            }

            /// Sends all requests through this proxy. By default, the environment variables
            /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` apply.
            pub fn proxy(mut self, url: impl Into<Secret>) -> Self {
                self.inner.http.proxy = ProxyChoice::Url(url.into());
                self
            }

            /// Sets the hosts that bypass [`proxy`](Self::proxy), in the format of `NO_PROXY`:
            /// for example `internal.example,10.0.0.0/8`, or `*` for all hosts.
            pub fn proxy_except(mut self, hosts: impl Into<String>) -> Self {
                self.inner.http.proxy_except = hosts.into();
                self
            }

            /// Ignores the proxy settings of the environment and connects directly.
            pub fn no_proxy(mut self) -> Self {
                self.inner.http.proxy = ProxyChoice::None;
                self
            }

            /// Trusts the certificates in this PEM text, in addition to the platform's. Can be
            /// called more than once.
            #[cfg(any(feature = "_rustls", feature = "native-tls"))]
            pub fn ca_bundle(mut self, pem: impl AsRef<[u8]>) -> Self {
                self.inner.http.tls.add_bundle(pem.as_ref());
                self
            }

            /// Whether to trust the platform's root certificates. Default: true.
            #[cfg(any(feature = "_rustls", feature = "native-tls"))]
            pub fn platform_certificates(mut self, trust: bool) -> Self {
                self.inner.http.tls.trust_platform(trust);
                self
            }

            /// Whether to use the platform's TLS library (OpenSSL on Linux) instead of rustls.
            /// Default: false, unless rustls is not compiled in.
            #[cfg(feature = "native-tls")]
            pub fn native_tls(mut self, native: bool) -> Self {
                self.inner.http.tls.prefer_native(native);
                self
            }
        }
    };
}

pub(super) use connection_options;
