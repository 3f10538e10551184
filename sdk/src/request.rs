//! What the types of requests share.

/// Adds `extra` and the conversion from a reference, so that a method takes both `value` and
/// `&value`.
macro_rules! request_type {
    ($name:ident) => {
        impl $name {
            /// Adds a field that this type does not model. It is sent as given.
            #[must_use]
            pub fn extra(
                mut self,
                name: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.extra.insert(name.into(), value.into());
                self
            }
        }

        impl From<&Self> for $name {
            fn from(request: &Self) -> Self {
                request.clone()
            }
        }
    };
}
pub(crate) use request_type;

/// Defines `NewWebhook`: both services register a webhook in the same way.
macro_rules! new_webhook {
    ($doc:literal, $url:literal) => {
        #[doc = $doc]
        #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub struct NewWebhook {
            #[doc = $url]
            pub url: String,
            /// The events to subscribe to.
            pub events: Vec<String>,
            /// Additional fields without a setter of their own; sent as given.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        $crate::request::request_type!(NewWebhook);

        impl NewWebhook {
            /// Creates the parameters with these events: strings or [`Event`]s.
            pub fn new<E: Into<String>>(
                url: impl Into<String>,
                events: impl IntoIterator<Item = E>,
            ) -> Self {
                let events = events.into_iter().map(Into::into).collect();
                Self { url: url.into(), events, extra: serde_json::Map::new() }
            }
        }

        /// Omits the URL, which may contain a secret in its path or query.
        impl std::fmt::Debug for NewWebhook {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct("NewWebhook").field("events", &self.events).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use new_webhook;
