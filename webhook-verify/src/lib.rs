#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Internal features: an adapter's feature enables them.
#![cfg_attr(docsrs, doc(auto_cfg(hide(feature = "_receiver", feature = "_body"))))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(all(feature = "dedup", target_family = "wasm", target_os = "unknown"))]
compile_error!(
    "the feature `dedup` of svc-webhook-verify needs a tokio runtime with a timer, which \
     wasm32-unknown-unknown does not have: remember `Delivery::key` in a store of your platform"
);

extern crate alloc;

mod body_bytes;
#[cfg(feature = "dedup")]
pub mod dedup;
mod delivery;
mod delivery_key;
#[cfg(feature = "diagnose")]
pub mod diagnose;
mod envelope;
mod error;
mod event;
#[cfg(any(feature = "_receiver", feature = "dedup"))]
mod log_text;
mod mac;
#[cfg(feature = "_receiver")]
mod receiver;
mod scheme;
mod secret;
mod sign;
mod signature;
mod stored;
mod stream;
mod timestamp;
mod verified;
mod verifier;

pub use body_bytes::BodyBytes;
pub use delivery::{Delivery, HeaderEvent};
pub use delivery_key::{DeliveryKey, Keyed};
pub use envelope::{EnvelopeError, JsonError};
#[cfg(any(feature = "_receiver", feature = "dedup"))]
pub use error::BoxError;
pub use error::VerifyError;
pub use event::{ExtractionEvent, MailEvent};
#[cfg(feature = "lambda")]
pub use receiver::lambda::{LambdaRequest, LambdaResponse};
#[cfg(feature = "tower")]
pub use receiver::tower::{Endpoint, VerifyLayer, VerifyService};
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
pub use receiver::{
    AnyDelivery, AnyReceiver, ExtractionDelivery, MailDelivery, Receiver, Rejection, RequestHead,
    RequestParts,
};
pub use scheme::{Extraction, Mail, Scheme};
#[cfg(feature = "std")]
pub use secret::SecretEnvError;
pub use secret::{Secret, SecretError};
pub use sign::{ExtractionSigner, MailSigner, Signer, StreamSigner};
pub use signature::{Signature, Tag};
pub use stored::{AnyEvent, Storable, StoredDelivery};
pub use stream::{BodyTooLarge, BufferedVerifier, StreamVerifier, VerifiedStream};
pub use timestamp::{AgeError, Timestamp};
pub use verified::Verified;
pub use verifier::{ExtractionVerifier, MAX_SECRETS, MailVerifier, Verifier};
