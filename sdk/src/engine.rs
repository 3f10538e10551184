//! The HTTP engine of both clients: turns an operation into a request, sends it, and decodes the
//! response.

mod attempt;
#[cfg(feature = "blocking")]
mod blocking;
mod builder;
mod call;
mod connections;
mod environment;
mod guard;
mod observer;
mod pauses;
mod preview;
mod proxy;
mod raw;
mod request;
mod response;
mod send;
mod shared;
mod target;
#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
mod wait;

pub use builder::ClientBuilder;
pub use call::Call;
pub use guard::RecipientGuard;
pub use observer::Attempt;
pub use pauses::Pause;
pub use preview::RequestPreview;
pub use response::{Deleted, RawResponse, Response};
pub use wait::{PollResult, Wait};

#[cfg(feature = "blocking")]
pub(crate) use blocking::block;
pub(crate) use environment::address_from_env;
pub(crate) use guard::{ActiveGuard, breaks_line, refuse, shown};
pub(crate) use raw::raw;
pub(crate) use request::body::{FileSource, Piece};
pub(crate) use request::{
    Payload, RequestBody, named_request, payload, request_type, update_request, write_json,
};
pub(crate) use response::{FromResponse, Received};
pub(crate) use shared::Shared;
