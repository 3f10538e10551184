//! The client: how an operation becomes a request and its answer a value.

mod attempt;
mod body;
mod builder;
mod call;
mod clients;
mod path;
mod payload;
mod preview;
mod raw;
mod response;
mod retry;
mod shared;
#[cfg(feature = "rustls")]
mod tls;
mod transport;

use std::pin::Pin;

pub use builder::{EmailClientBuilder, ExtractionClientBuilder};
pub use call::Call;
pub use clients::{EmailClient, ExtractionClient};
pub(crate) use payload::Payload;
pub use preview::RequestPreview;
pub use response::{Deleted, RawAnswer, Response};
pub(crate) use shared::Shared;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type BoxStream<T> = Pin<Box<dyn futures_core::Stream<Item = T> + Send>>;
