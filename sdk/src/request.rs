//! What the requests of both services share.

use serde::{Deserialize, Serialize};

use crate::client::Payload;
use crate::decode::{Extra, HasExtra};
use crate::error::{Error, InvalidInput};
use crate::names::debug_fields;

/// Adds the setter of `extra` and the conversion from a reference, so that a method takes both
/// `value` and `&value`.
macro_rules! request_type {
    ($name:ident) => {
        crate::decode::has_extra!($name);

        impl $name {
            /// Adds a field that this type does not model. It is sent as given.
            #[must_use]
            pub fn extra(
                mut self,
                name: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.extra.0.insert(name.into(), value.into());
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

/// Serializes a request. A field that is set by its own method and by `extra` is refused: a name
/// must occur once in a JSON object.
pub(crate) fn payload<T: Serialize + HasExtra>(mut request: T) -> Result<Payload, Error> {
    let extra = std::mem::take(request.extra_mut());
    if !extra.is_empty() {
        let typed = serde_json::to_value(&request).unwrap_or_default();
        if let Some(name) = extra.keys().find(|name| typed.get(name).is_some()) {
            return Err(InvalidInput::given_twice(name).into());
        }
        *request.extra_mut() = extra;
    }
    Payload::json(&request)
}

/// The parameters of a new webhook of either service.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewWebhook {
    /// The URL of the endpoint. The email service requires `https`.
    pub url: String,
    /// The events to subscribe to.
    pub events: Vec<String>,
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
}

request_type!(NewWebhook);

impl NewWebhook {
    /// Creates the parameters with these events: strings, or an `Event` of the service.
    pub fn new<E: Into<String>>(
        url: impl Into<String>,
        events: impl IntoIterator<Item = E>,
    ) -> Self {
        let events = events.into_iter().map(Into::into).collect();
        Self {
            url: url.into(),
            events,
            extra: Extra::default(),
        }
    }
}

debug_fields!(NewWebhook: events);
