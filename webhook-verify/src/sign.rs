//! Signing, for senders and for users' tests.

use core::fmt;
use core::marker::PhantomData;
use core::slice;

use crate::mac::{Keyed, Running};
use crate::{Extraction, Mail, Scheme, Secret, Signature};

/// Signs as the extraction service does.
pub type ExtractionSigner = Signer<Extraction>;

/// Signs as the email service does.
pub type MailSigner = Signer<Mail>;

/// Signs bodies of one scheme with one secret.
///
/// ```
/// use webhook_verify::{Mail, MailSigner, Scheme, Secret};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let signer = MailSigner::new(&Secret::new("whsec_3f1c")?);
/// let line = format!("{}: {}", Mail::SIGNATURE_HEADER, signer.sign(b"{}"));
/// assert!(line.starts_with("Mail-Signature: "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Signer<S> {
    key: Keyed,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Signer<S> {
    /// A signer with this secret.
    pub fn new(secret: &Secret) -> Self {
        Self { key: Keyed::new(secret), scheme: PhantomData }
    }

    /// The signature of a body; its `Display` is the header's value.
    pub fn sign(&self, body: impl AsRef<[u8]>) -> Signature<S> {
        Signature::from_tag(self.key.tag_of(body.as_ref()))
    }

    /// Begins to sign a body that comes in pieces.
    pub fn begin(&self) -> Signing<S> {
        Signing { running: Running::new(slice::from_ref(&self.key)), scheme: PhantomData }
    }
}

impl<S: Scheme> fmt::Debug for Signer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// A signature being made of pieces.
#[derive(Clone)]
#[must_use = "the signature is made by `finish`"]
pub struct Signing<S> {
    running: Running,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Signing<S> {
    /// Takes the next piece of the body, of any size.
    pub fn update(&mut self, piece: impl AsRef<[u8]>) {
        self.running.update(piece.as_ref());
    }

    /// The signature of all pieces together.
    pub fn finish(self) -> Signature<S> {
        Signature::from_tag(self.running.tag())
    }
}

impl<S: Scheme> fmt::Debug for Signing<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}
