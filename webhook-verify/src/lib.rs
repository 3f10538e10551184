#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// What nobody switches on by itself.
#![cfg_attr(docsrs, doc(auto_cfg(hide(feature = "_receiver", feature = "_body"))))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

#[cfg(feature = "dedup")]
pub mod dedup;
mod delivery;
#[cfg(feature = "diagnose")]
pub mod diagnose;
mod error;
mod event;
mod mac;
#[cfg(feature = "_receiver")]
mod receiver;
mod scheme;
mod secret;
#[cfg(any(feature = "_receiver", feature = "dedup"))]
mod shown;
mod sign;
mod signature;
mod stream;
mod timestamp;
mod verified;
mod verifier;

pub use delivery::{Delivery, DeliveryKey, EnvelopeError, HeaderEvent, JsonError};
pub use error::VerifyError;
pub use event::{ExtractionEvent, MailEvent};
#[cfg(feature = "lambda")]
pub use receiver::lambda::{LambdaRequest, LambdaResponse};
#[cfg(feature = "tower")]
pub use receiver::tower::{Verify, VerifyLayer};
#[cfg(feature = "_receiver")]
#[cfg_attr(
    docsrs,
    doc(cfg(any(
        feature = "http",
        feature = "axum",
        feature = "tower",
        feature = "actix",
        feature = "lambda"
    )))
)]
pub use receiver::{ExtractionDelivery, MailDelivery, Receiver, Rejection};
pub use scheme::{Extraction, Mail, Scheme};
#[cfg(feature = "std")]
pub use secret::SecretEnvError;
pub use secret::{Secret, SecretError};
pub use sign::{ExtractionSigner, MailSigner, Signer, Signing};
pub use signature::{Signature, Tag};
pub use stream::{Collecting, Confirmed, TooLarge, Verifying};
pub use timestamp::{AgeError, Timestamp};
pub use verified::Verified;
pub use verifier::{ExtractionVerifier, MAX_SECRETS, MailVerifier, Verifier};
