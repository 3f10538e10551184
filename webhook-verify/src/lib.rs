#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "dedup")]
pub mod dedup;
mod delivery;
mod log_text;
mod receiver;
mod rejection;
mod secret;
mod signature;
mod verifier;

pub use bytes;
pub use chrono;

pub use delivery::{Delivery, Event};
pub use receiver::{BoxError, Receiver, RequestHead};
pub use rejection::{JsonError, Rejection};
pub use secret::{Secret, SecretError};
pub use signature::{Service, Signature, UnknownService};
pub use verifier::{MAX_SECRETS, StreamVerifier, Verifier};
