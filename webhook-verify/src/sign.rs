//! Signs bodies as the services do, for senders and for tests.

use core::fmt;
use core::marker::PhantomData;
use core::slice;

use crate::mac::{HmacKey, HmacStream};
use crate::{Extraction, Mail, Scheme, Secret, Signature};

/// Signs as the extraction service does.
pub type ExtractionSigner = Signer<Extraction>;

/// Signs as the email service does.
pub type MailSigner = Signer<Mail>;

/// Signs bodies of one scheme with one secret.
///
/// Use it to test your receiver, or to implement a sender.
///
/// ```
/// use webhook_verify::{Mail, MailSigner, Scheme, Secret};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let signer = MailSigner::new(&Secret::new("whsec_3f1c")?);
/// let header = format!("{}: {}", Mail::SIGNATURE_HEADER, signer.sign(b"{}"));
/// assert!(header.starts_with("Mail-Signature: "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Signer<S> {
    key: HmacKey,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Signer<S> {
    /// Creates a signer with the given secret.
    pub fn new(secret: &Secret) -> Self {
        Self { key: HmacKey::new(secret), scheme: PhantomData }
    }

    /// Signs a body. The signature's `Display` is the value of the signature header.
    pub fn sign(&self, body: impl AsRef<[u8]>) -> Signature<S> {
        Signature::from_tag(self.key.tag(body.as_ref()))
    }

    /// Starts to sign a body that is available in chunks.
    pub fn sign_stream(&self) -> StreamSigner<S> {
        StreamSigner { mac: HmacStream::new(slice::from_ref(&self.key)), scheme: PhantomData }
    }
}

impl<S: Scheme> fmt::Debug for Signer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// Signs a body chunk by chunk. Created by [`Signer::sign_stream`].
#[derive(Clone)]
#[must_use = "call `finish` to get the signature"]
pub struct StreamSigner<S> {
    mac: HmacStream,
    scheme: PhantomData<S>,
}

impl<S: Scheme> StreamSigner<S> {
    /// Adds the next chunk of the body, of any size.
    pub fn update(&mut self, chunk: impl AsRef<[u8]>) {
        self.mac.update(chunk.as_ref());
    }

    /// Returns the signature of all chunks together.
    pub fn finish(self) -> Signature<S> {
        Signature::from_tag(self.mac.tag())
    }
}

impl<S: Scheme> fmt::Debug for StreamSigner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSigner").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}
