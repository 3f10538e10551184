//! The two signature schemes, as types.

use core::fmt;
use core::hash::Hash;

use crate::{ExtractionEvent, MailEvent};

/// A signature scheme: [`Extraction`] or [`Mail`].
///
/// Both schemes compute the same MAC, HMAC-SHA256 over the raw body. They differ
/// in the header's name and format and in the events. Verifiers, signers and
/// signatures are generic over the scheme, so the compiler rejects code that
/// mixes them:
///
/// ```compile_fail,E0308
/// use webhook_verify::{ExtractionSigner, MailVerifier, Secret};
///
/// let secret = || Secret::new("whsec_3f1c").unwrap();
/// let signature = ExtractionSigner::new(&secret()).sign("{}");
/// let _ = MailVerifier::new(secret()).verify_signature(&signature, "{}");
/// ```
///
/// This trait is sealed and cannot be implemented outside this crate.
pub trait Scheme: sealed::Sealed + Copy + fmt::Debug + Send + Sync + Unpin + 'static {
    /// The scheme's name in log messages: `extraction` or `mail`.
    const NAME: &'static str;
    /// The name of the header that carries the signature.
    const SIGNATURE_HEADER: &'static str;
    /// The name of the header that carries the event name, if the service's
    /// reference defines one. This header is **not signed**.
    const EVENT_HEADER: Option<&'static str>;
    /// The text before the hex digits in the signature header.
    const SIGNATURE_PREFIX: &'static str;
    /// The events of the service.
    type Event: for<'a> From<&'a str>
        + AsRef<str>
        + Clone
        + Eq
        + Hash
        + fmt::Debug
        + fmt::Display
        + Send
        + Sync
        + Unpin
        + 'static;
}

/// The extraction service's scheme: `X-Service-Signature: sha256=<hex>`.
///
/// See `docs/extraction-service/events.md#signature`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extraction;

impl Scheme for Extraction {
    const NAME: &'static str = "extraction";
    const SIGNATURE_HEADER: &'static str = "X-Service-Signature";
    const EVENT_HEADER: Option<&'static str> = Some("X-Service-Event");
    const SIGNATURE_PREFIX: &'static str = "sha256=";
    type Event = ExtractionEvent;
}

/// The email service's scheme: `Mail-Signature: <hex>`.
///
/// See `docs/email-service/events.md#signature`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mail;

impl Scheme for Mail {
    const NAME: &'static str = "mail";
    const SIGNATURE_HEADER: &'static str = "Mail-Signature";
    const EVENT_HEADER: Option<&'static str> = None;
    const SIGNATURE_PREFIX: &'static str = "";
    type Event = MailEvent;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Extraction {}
    impl Sealed for super::Mail {}
}
