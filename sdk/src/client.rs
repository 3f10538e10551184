//! The parts that the clients of both services share.

/// Defines these methods of a client and of its builder. `$variables` says what they read.
macro_rules! client {
    (
        $client:ident, $service:ident, $variables:literal;
        $( $(#[$meta:meta])* $name:ident: $collection:ident; )+
    ) => {
        impl $client {
            /// Builds a client from the environment variables
            #[doc = $variables]
            /// which `svc` reads, too. It has the [recipient guard](crate::RecipientGuard::from_env) of the environment.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing or invalid;
            /// the error names it.
            pub fn from_env() -> Result<Self, Error> {
                ClientBuilder::<Self>::from_env()?.build()
            }

            /// Starts building a client for the service at `base_url`, authenticated with the API
            /// key `key`.
            ///
            /// The base URL is the part before `/api/v1` or `/v1` and may have a path. Use `http` only
            /// for a server on the same machine: it transmits the key in cleartext.
            pub fn builder(
                base_url: impl Into<String>,
                key: impl Into<Secret>,
            ) -> ClientBuilder<Self> {
                ClientBuilder::new(base_url.into(), key.into())
            }

            /// Returns a client that uses another API key, and shares the connections and all
            /// options with this one, for an application that acts for several organizations. If
            /// the service limits the rate of one key, the other is not held back.
            ///
            /// The scopes of the key are unknown to the client until they are declared or learned.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the key is empty, or contains
            /// characters that are not allowed in a header.
            pub fn with_key(&self, key: impl Into<Secret>) -> Result<Self, Error> {
                let shared = self.shared.with_key(&key.into())?;
                Ok(Self { shared })
            }

            $(
                $(#[$meta])*
                pub fn $name(&self) -> $collection {
                    let shared = Arc::clone(&self.shared);
                    $collection { shared }
                }
            )+

            /// Returns the pauses that the service asked for with a 429 and that hold back calls of
            /// this client and its clones with the same key. See
            /// [`max_retry_after`](crate::ClientBuilder::max_retry_after).
            pub fn pauses(&self) -> Vec<Pause> {
                self.shared.pauses()
            }

            /// Ends the [pauses](Self::pauses). The calls that wait start at once.
            pub fn end_pauses(&self) {
                self.shared.end_pauses();
            }

            /// Sends a request to any endpoint of the service, such as one that this crate does not
            /// model.
            ///
            /// `path` is relative to the base URL, starts with a slash and may include a query. If
            /// method and path match a documented operation, the call behaves like that operation;
            /// otherwise only `GET` and `HEAD` are retried after ambiguous failures, see
            /// [`Call::idempotent`].
            ///
            /// ```no_run
            /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
            /// let response = client.raw("GET", "/api/v1/templates").query("page", "2").await?;
            /// let templates: Vec<String> = response.json()?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn raw(&self, method: impl AsRef<str>, path: impl AsRef<str>) -> Call<RawResponse> {
                raw(&self.shared, method.as_ref(), path.as_ref())
            }
        }

        impl ClientBuilder<$client> {
            /// Starts building a client from the environment variables
            #[doc = $variables]
            /// which `svc` reads, too. It has the [recipient guard](crate::RecipientGuard::from_env) of the environment.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing; the error
            /// names it.
            pub fn from_env() -> Result<Self, Error> {
                let [url, key] = address_from_env(Service::$service)?;
                Self::new(url, key.into()).recipient_guard_from_env()
            }

            /// Builds the client. This sends nothing. It loads the platform's certificates if the
            /// base URL is `https`.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
            /// `https` URL, it uses `https` and the platform has no certificates, the key is empty,
            /// or the value of an option is invalid.
            pub fn build(self) -> Result<$client, Error> {
                let shared = self.build_shared(Service::$service)?;
                Ok($client { shared })
            }
        }
    };
}
pub(crate) use client;

/// Defines the operations on a kind of resource, with those that most kinds have.
macro_rules! collection {
    (
        $(#[$meta:meta])*
        $collection:ident of $resource:ident;
        $(#[$list_meta:meta])*
        list $list:ident;
        $(#[$delete_meta:meta])*
        delete $delete:ident;
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $collection {
            pub(crate) shared: std::sync::Arc<crate::engine::Shared>,
        }

        impl $collection {
            $(#[$list_meta])*
            /// These are all of them, or the first page, see
            /// [`List::is_complete`](crate::List::is_complete) and [`stream`](Self::stream).
            pub fn list(&self) -> Call<crate::list::List<$resource>> {
                Call::without_body(&self.shared, Operation::$list, &[])
            }

            /// Returns a stream of all of them, which requests page after page if there are pages.
            pub fn stream(&self) -> crate::pages::ListStream<$resource> {
                let collection = self.clone();
                crate::pages::ListStream::new(false, move || collection.list())
            }

            $(#[$delete_meta])*
            pub fn delete(&self, id: impl AsRef<str>) -> Call<crate::engine::Deleted> {
                Call::without_body(&self.shared, Operation::$delete, &[id.as_ref()])
            }
        }
    };
}
pub(crate) use collection;
