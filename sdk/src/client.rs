//! The HTTP clients: turn an operation into a request, send it, and decode the response.

mod attempt;
#[cfg(feature = "blocking")]
mod blocking;
mod body;
mod builder;
mod call;
mod connections;
mod environment;
mod guard;
mod limits;
mod observer;
mod path;
mod payload;
mod preview;
mod raw;
mod response;
mod send;
mod shared;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
mod wait;

pub use builder::ClientBuilder;
pub use call::Call;
pub use guard::RecipientGuard;
pub use observer::Attempt;
pub use preview::RequestPreview;
pub use response::{Deleted, RawResponse, Response};
pub use wait::{Poll, Wait};

#[cfg(feature = "blocking")]
pub(crate) use blocking::block;
pub(crate) use body::{FileSource, Piece};
pub(crate) use environment::required;
pub(crate) use guard::{ActiveGuard, refuse, shown};
pub(crate) use payload::{Payload, write_json};
pub(crate) use raw::raw;
pub(crate) use response::{FromResponse, Received};
pub(crate) use shared::Shared;
