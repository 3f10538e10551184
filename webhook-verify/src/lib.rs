#![doc = include_str!("../README.md")]
//!
//! ## Types
//!
//! - [`Verifier`] verifies a body with a [`Secret`] of a [`Service`], or up to [`MAX_SECRETS`], and
//!   returns a [`Delivery`] with its [`Event`], or a [`Rejection`]. It finds the [`Signature`] in a
//!   [`SignatureSource`], such as the headers.
//! - [`SecretError`] says why a text is not a secret, and [`JsonError`] where the data of a delivery
//!   does not fit your type.
//! - [`Receiver`] verifies for a framework: it reads the body within limits, and finds the verifier of
//!   a tenant by the [`RequestHead`].
#![cfg_attr(feature = "dedup", doc = include_str!("dedup/front_page.md"))]
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
pub use signature::{Service, Signature, SignatureSource, UnknownService};
pub use verifier::{MAX_SECRETS, Verifier};
