//! The two signature schemes, as types, so that a verifier of one cannot be
//! handed a delivery of the other by accident.

use core::fmt;
use core::hash::Hash;

use crate::{ExtractionEvent, MailEvent};

/// A signature scheme: [`Extraction`] or [`Mail`].
///
/// Sealed: both schemes are the same MAC, and what separates them is only the
/// header, its grammar and the names of the events. So they are types, and what
/// belongs to one does not fit where the other is meant:
///
/// ```compile_fail,E0308
/// use webhook_verify::{ExtractionSigner, MailVerifier, Secret};
///
/// let secret = || Secret::new("whsec_3f1c").unwrap();
/// let signature = ExtractionSigner::new(&secret()).sign("{}");
/// let _ = MailVerifier::new(secret()).verify_signature(&signature, "{}");
/// ```
pub trait Scheme: sealed::Sealed + Copy + fmt::Debug + Send + Sync + Unpin + 'static {
    /// The scheme's name in logs: `extraction` or `mail`.
    const NAME: &'static str;
    /// The header that carries the signature.
    const SIGNATURE_HEADER: &'static str;
    /// The header that carries the event's name, where the documents name one.
    /// It is **not signed**.
    const EVENT_HEADER: Option<&'static str>;
    /// What stands before the hex digits in the signature header.
    const PREFIX: &'static str;
    /// The events of the scheme.
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

/// The extraction service's scheme: `X-Service-Signature: sha256=<hex>`
/// (`docs/extraction-service/events.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extraction;

impl Scheme for Extraction {
    const NAME: &'static str = "extraction";
    const SIGNATURE_HEADER: &'static str = "X-Service-Signature";
    const EVENT_HEADER: Option<&'static str> = Some("X-Service-Event");
    const PREFIX: &'static str = "sha256=";
    type Event = ExtractionEvent;
}

/// The email service's scheme: `Mail-Signature: <hex>` (`docs/email-service/events.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mail;

impl Scheme for Mail {
    const NAME: &'static str = "mail";
    const SIGNATURE_HEADER: &'static str = "Mail-Signature";
    const EVENT_HEADER: Option<&'static str> = None;
    const PREFIX: &'static str = "";
    type Event = MailEvent;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Extraction {}
    impl Sealed for super::Mail {}
}
