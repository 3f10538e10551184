//! The client: how an operation becomes a request and its answer a value.

mod attempt;
#[cfg(feature = "blocking")]
mod block;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod body;
mod builder;
mod call;
mod clients;
#[cfg(feature = "tower")]
mod layer;
mod observe;
mod path;
mod payload;
mod preview;
#[cfg(feature = "rate-limit")]
mod rate;
mod raw;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod reading;
mod response;
mod retry;
#[cfg(feature = "rustls")]
mod rustls;
mod shared;
mod text;
#[cfg_attr(all(target_arch = "wasm32", target_os = "unknown"), path = "web/time.rs")]
mod time;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
#[cfg(feature = "tracing")]
mod trace;
mod transport;
mod wait;
#[cfg_attr(all(target_arch = "wasm32", target_os = "unknown"), path = "web/wire.rs")]
mod wire;

use std::pin::Pin;

pub use builder::{EmailClientBuilder, ExtractionClientBuilder};
pub use call::Call;
pub use clients::{EmailClient, ExtractionClient};
#[cfg(feature = "tower")]
pub use layer::{AttemptFuture, AttemptService, Body};
pub use observe::Attempt;
pub(crate) use payload::Payload;
pub use preview::RequestPreview;
pub use response::{Deleted, RawResponse, Response};
pub(crate) use shared::Shared;
pub use wait::Wait;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type BoxStream<T> = Pin<Box<dyn futures_core::Stream<Item = T> + Send>>;
