//! Verifies bodies that arrive in chunks.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::mac::HmacStream;
use crate::{Scheme, Signature, Tag, Verified, Verifier, VerifyError};

impl<S: Scheme> Verifier<S> {
    /// Starts to verify a body that arrives in chunks and that the caller stores,
    /// for example in a file.
    ///
    /// With several secrets, each chunk is hashed once per secret.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] if the header does not have the
    /// scheme's format.
    #[inline]
    pub fn verify_stream(
        &self,
        header: impl AsRef<[u8]>,
    ) -> Result<StreamVerifier<S>, VerifyError> {
        Ok(self.verify_stream_signature(&Signature::parse(header)?))
    }

    /// Like [`verify_stream`](Self::verify_stream), with a parsed signature.
    #[inline]
    pub fn verify_stream_signature(&self, signature: &Signature<S>) -> StreamVerifier<S> {
        StreamVerifier { mac: HmacStream::new(&self.keys()), signature: *signature }
    }

    /// Starts to verify a body that arrives in chunks, and buffers up to `limit`
    /// bytes of it until the signature is verified.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] if the header does not have the
    /// scheme's format.
    pub fn verify_buffered(
        &self,
        header: impl AsRef<[u8]>,
        limit: usize,
    ) -> Result<BufferedVerifier<S>, VerifyError> {
        Ok(self.verify_buffered_signature(&Signature::parse(header)?, limit))
    }

    /// Like [`verify_buffered`](Self::verify_buffered), with a parsed signature.
    pub fn verify_buffered_signature(
        &self,
        signature: &Signature<S>,
        limit: usize,
    ) -> BufferedVerifier<S> {
        let verifier = self.verify_stream_signature(signature);
        BufferedVerifier { verifier, body: Vec::new(), limit, too_large: false }
    }
}

/// Verifies a body chunk by chunk without storing it. Created by
/// [`Verifier::verify_stream`].
///
/// Do not use any of the chunks before [`finish`](Self::finish) has returned
/// `Ok`. [`Verifier::verify_buffered`] stores the chunks and enforces this.
///
/// ```
/// use webhook_verify::{MailSigner, MailVerifier, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = Secret::new("whsec_3f1c")?;
/// let header = MailSigner::new(&secret).sign("one two").to_string();
///
/// let mut stream = MailVerifier::new(secret).verify_stream(&header)?;
/// stream.update("one ");
/// stream.update("two");
/// assert_eq!(stream.finish()?.matched_secret(), 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is verified until `finish` is called"]
pub struct StreamVerifier<S> {
    mac: HmacStream,
    signature: Signature<S>,
}

impl<S: Scheme> StreamVerifier<S> {
    /// Adds the next chunk of the body, of any size.
    #[inline]
    pub fn update(&mut self, chunk: impl AsRef<[u8]>) {
        self.mac.update(chunk.as_ref());
    }

    /// Verifies the signature of all chunks together.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`] if no secret produces this signature.
    #[inline]
    pub fn finish(self) -> Result<VerifiedStream<S>, VerifyError> {
        let tag = self.signature.tag();
        let matched_secret = self.mac.matching_key(tag).ok_or(VerifyError::Mismatch)?;
        Ok(VerifiedStream { tag: Tag::new(*tag), matched_secret, scheme: PhantomData })
    }
}

impl<S: Scheme> fmt::Debug for StreamVerifier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamVerifier").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// The result of a successful [`StreamVerifier`]: all chunks together have a
/// valid signature.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedStream<S> {
    tag: Tag,
    matched_secret: usize,
    scheme: PhantomData<S>,
}

impl<S: Scheme> VerifiedStream<S> {
    /// The verified signature's tag. Byte-identical bodies have the same tag.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Index of the secret that produced the signature. 0 is the newest.
    pub fn matched_secret(&self) -> usize {
        self.matched_secret
    }
}

/// Verifies a body chunk by chunk and buffers it, up to a limit. Created by
/// [`Verifier::verify_buffered`].
///
/// The body is available only after its signature was verified.
///
/// ```
/// use webhook_verify::{MailSigner, MailVerifier, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = Secret::new("whsec_3f1c")?;
/// let header = MailSigner::new(&secret).sign("one two").to_string();
///
/// let mut buffered = MailVerifier::new(secret).verify_buffered(&header, 1024 * 1024)?;
/// buffered.push("one ")?;
/// buffered.push("two")?;
/// assert_eq!(buffered.finish()?.body(), b"one two");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is verified until `finish` is called"]
pub struct BufferedVerifier<S> {
    verifier: StreamVerifier<S>,
    body: Vec<u8>,
    limit: usize,
    too_large: bool,
}

impl<S: Scheme> BufferedVerifier<S> {
    /// Adds the next chunk of the body, of any size.
    ///
    /// # Errors
    ///
    /// [`BodyTooLarge`] if the body exceeds the limit. All further calls fail
    /// too. Stop reading and respond 413.
    pub fn push(&mut self, chunk: impl AsRef<[u8]>) -> Result<(), BodyTooLarge> {
        let chunk = chunk.as_ref();
        self.too_large |= chunk.len() > self.limit - self.body.len();
        if self.too_large {
            return Err(BodyTooLarge { limit: self.limit });
        }
        self.verifier.update(chunk);
        self.body.extend_from_slice(chunk);
        Ok(())
    }

    /// Verifies the signature and returns the body.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`] if no secret produces this signature, or if
    /// [`push`](Self::push) rejected a chunk, because the body is then incomplete.
    pub fn finish(self) -> Result<Verified<S, Vec<u8>>, VerifyError> {
        if self.too_large {
            return Err(VerifyError::Mismatch);
        }
        let verified = self.verifier.finish()?;
        Ok(Verified::new(self.body, verified.tag, verified.matched_secret))
    }
}

impl<S: Scheme> fmt::Debug for BufferedVerifier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedVerifier")
            .field("scheme", &S::NAME)
            .field("bytes", &self.body.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The body exceeds the size limit: respond 413.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is larger than {limit} bytes")]
pub struct BodyTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}
