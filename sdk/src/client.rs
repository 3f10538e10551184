//! The HTTP clients: turn an operation into a request, send it, and decode the response.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod attachment_reader;
mod attempt;
#[cfg(feature = "blocking")]
mod blocking;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod body;
mod builder;
mod call;
mod clients;
#[cfg_attr(all(target_arch = "wasm32", target_os = "unknown"), path = "client/web/connections.rs")]
mod connections;
#[cfg_attr(all(target_arch = "wasm32", target_os = "unknown"), path = "client/web/exchange.rs")]
mod exchange;
mod guard;
mod hold;
mod key;
#[cfg(feature = "tower")]
mod layer;
mod observer;
mod path;
mod payload;
mod preview;
#[cfg(feature = "rate-limit")]
mod rate_limit;
mod raw;
mod response;
mod retry;
#[cfg(feature = "_rustls")]
mod rustls;
mod shared;
#[cfg_attr(all(target_arch = "wasm32", target_os = "unknown"), path = "client/web/time.rs")]
mod time;
#[cfg(any(feature = "_rustls", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
mod transport;
mod wait;

use std::pin::Pin;

pub use builder::{EmailClientBuilder, ExtractionClientBuilder};
pub use call::Call;
#[cfg(feature = "bulk")]
pub(crate) use call::MayTry;
pub use clients::{EmailClient, ExtractionClient};
pub use guard::RecipientGuard;
#[cfg(feature = "tower")]
pub use layer::{AttemptFuture, AttemptService, Body};
pub use observer::Attempt;
pub(crate) use payload::Payload;
pub use preview::RequestPreview;
pub use response::{CallOutput, Deleted, RawResponse, Response};
pub(crate) use response::{FromResponse, Resource, ResponseParts};
pub(crate) use shared::Shared;
pub use wait::{Poll, Wait};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type BoxStream<T> = Pin<Box<dyn futures_core::Stream<Item = T> + Send>>;
