//! The request of a call, and its body: one `Bytes`, or, with attachments from files,
//! pieces of text with the files between them, which are read while they are sent.

pub(crate) mod body;
pub(crate) mod path;

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Serialize;

use self::body::{Piece, length};
use crate::decode::HasExtra;
use crate::dialect::Dialect;
use crate::error::{Error, InvalidInput};
use crate::operation::Operation;

/// The request to send.
pub(crate) struct Request {
    pub(super) operation: Option<Operation>,
    pub(super) method: Method,
    /// Path and query, relative to the base URL.
    pub(super) path: Cow<'static, str>,
    pub(super) payload: Payload,
    /// Whether performing the request twice has the same effect as performing it once.
    pub(super) idempotent: bool,
    /// The number of recipients, for the limit of a recipient guard.
    pub(super) recipients: u64,
    /// The idempotency key of a send to which the caller has given none.
    pub(super) idempotency_key: Option<HeaderValue>,
    pub(super) on_repetition: OnRepetition,
}

/// The meaning of a refused repetition if an earlier attempt, whose response was lost, may have
/// done what was asked for.
pub(crate) enum OnRepetition {
    /// No more than for the first attempt.
    Refused,
    /// Not found: the resource was deleted.
    MayBeDeleted,
    /// Conflict: another request finds out.
    Confirm(Box<Confirmation>),
}

/// How to find out whether an earlier attempt has done what was asked for.
pub(crate) struct Confirmation {
    pub(super) request: Request,
    /// Reads the body of the response.
    pub(super) is_done: fn(&[u8], &Dialect) -> bool,
}

/// The options of one call.
#[derive(Default)]
pub(crate) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) idempotency_key: Option<HeaderValue>,
    pub(super) headers: HeaderMap,
}

impl Options {
    /// The same for another request than the one that the caller's key was meant for.
    pub(super) fn without_idempotency_key(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.remove(IDEMPOTENCY_KEY);
        Self {
            idempotency_key: None,
            headers,
            ..*self
        }
    }
}

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The body of a request, and how many recipients it has, for the recipient guard.
pub(crate) struct RequestBody {
    pub(crate) payload: Payload,
    pub(crate) recipients: u64,
}

impl From<Payload> for RequestBody {
    fn from(payload: Payload) -> Self {
        Self {
            payload,
            recipients: 0,
        }
    }
}

#[derive(Clone)]
pub(crate) enum Payload {
    Empty,
    /// A body in memory with its content type.
    Bytes(Bytes, HeaderValue),
    /// JSON with attachments that are read while it is sent.
    Files(Arc<[Piece]>),
}

impl Payload {
    pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        let mut text = Vec::with_capacity(128);
        write_json(&mut text, value)?;
        Ok(Self::Bytes(text.into(), JSON))
    }

    /// JSON in pieces: `last` is the text after the last file.
    pub(crate) fn pieces(mut pieces: Vec<Piece>, last: Vec<u8>) -> Self {
        if pieces.is_empty() {
            return Self::Bytes(last.into(), JSON);
        }
        pieces.push(Piece::Text(last.into()));
        Self::Files(pieces.into())
    }

    /// Writes the body piece by piece, with attachments encoded.
    pub(super) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Empty => Ok(()),
            Self::Bytes(bytes, _) => out.write_all(bytes),
            Self::Files(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::File { source, .. } => {
                    let mut chunks = source.open()?;
                    while let Some(chunk) = chunks.next_chunk()? {
                        out.write_all(&chunk)?;
                    }
                    Ok(())
                }
            }),
        }
    }

    /// The length of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Files(pieces) => length(pieces),
        }
    }
}

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) fn write_json<T: Serialize + ?Sized>(
    text: &mut Vec<u8>,
    value: &T,
) -> Result<(), Error> {
    serde_json::to_writer(text, value).map_err(|error| {
        Error::from(InvalidInput::new("body", "cannot be serialized as JSON")).with_source(error)
    })
}

/// Adds the setter of `extra` and the conversion from a reference, so that a method takes both
/// `value` and `&value`.
macro_rules! request_type {
    ($name:ident) => {
        crate::decode::has_extra!($name);

        impl $name {
            /// Adds a field that this type does not model. It is sent as given.
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

/// Defines the parameters of an update, of which those that are set are sent.
macro_rules! update_request {
    (
        $(#[$meta:meta])*
        $name:ident;
        $( $(#[$field_meta:meta])* $field:ident: $type:ty; )+
    ) => {
        $(#[$meta])*
        /// Fields that are not set stay unchanged.
        #[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        #[must_use = "it has to be sent"]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::decode::Absent::is_absent")]
                pub $field: $type,
            )+
            /// Additional fields; sent as given.
            #[serde(flatten)]
            pub extra: crate::decode::Extra,
        }

        crate::engine::request_type!($name);

        impl $name {
            /// Creates an empty update.
            pub fn new() -> Self {
                Self::default()
            }
        }
    };
}
pub(crate) use update_request;

/// Defines the parameters of a new resource that has a name and nothing else.
macro_rules! named_request {
    ($(#[$meta:meta])* $request:ident) => {
        $(#[$meta])*
        /// A name alone converts into it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct $request {
            /// The name.
            pub name: String,
            /// Additional fields; sent as given.
            #[serde(flatten)]
            pub extra: Extra,
        }

        crate::engine::request_type!($request);

        impl $request {
            /// Creates the parameters with this name.
            pub fn new(name: impl Into<String>) -> Self {
                Self {
                    name: name.into(),
                    extra: Extra::default(),
                }
            }
        }

        impl<T: Into<String>> From<T> for $request {
            fn from(name: T) -> Self {
                Self::new(name)
            }
        }
    };
}
pub(crate) use named_request;

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
