//! Verification of a body that comes in pieces.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::mac::Running;
use crate::{Scheme, Signature, Tag, Verified, Verifier, VerifyError};

impl<S: Scheme> Verifier<S> {
    /// Begins to verify a body that comes in pieces and is kept elsewhere,
    /// such as in a file.
    ///
    /// With several active secrets each piece is computed for all of them.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`], before any of the body is taken.
    #[inline]
    pub fn begin(&self, header: impl AsRef<[u8]>) -> Result<Verifying<S>, VerifyError> {
        Ok(self.begin_signature(&Signature::parse(header)?))
    }

    /// Begins to verify against a signature that was read before.
    #[inline]
    pub fn begin_signature(&self, signature: &Signature<S>) -> Verifying<S> {
        Verifying { running: Running::new(self.keys()), signature: *signature }
    }

    /// Begins to verify a body that comes in pieces, and keeps them until all
    /// of them together are verified: at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`], before any of the body is taken.
    pub fn collect(
        &self,
        header: impl AsRef<[u8]>,
        limit: usize,
    ) -> Result<Collecting<S>, VerifyError> {
        Ok(self.collect_signature(&Signature::parse(header)?, limit))
    }

    /// Begins to collect against a signature that was read before.
    pub fn collect_signature(&self, signature: &Signature<S>, limit: usize) -> Collecting<S> {
        let verifying = self.begin_signature(signature);
        Collecting { verifying, body: Vec::new(), limit, too_large: false }
    }
}

/// A verification under way, over pieces of any size.
///
/// Whoever keeps the pieces must not use any of them before
/// [`finish`](Self::finish) has said yes. [`Verifier::collect`] keeps them
/// itself.
///
/// ```
/// use webhook_verify::{MailSigner, MailVerifier, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = Secret::new("whsec_3f1c")?;
/// let header = MailSigner::new(&secret).sign("one two").to_string();
///
/// let mut verifying = MailVerifier::new(secret).begin(&header)?;
/// verifying.update("one ");
/// verifying.update("two");
/// assert_eq!(verifying.finish()?.matched_secret(), 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is verified before `finish`"]
pub struct Verifying<S> {
    running: Running,
    signature: Signature<S>,
}

impl<S: Scheme> Verifying<S> {
    /// Takes the next piece.
    #[inline]
    pub fn update(&mut self, piece: impl AsRef<[u8]>) {
        self.running.update(piece.as_ref());
    }

    /// Says whether all pieces together have the signature.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`].
    #[inline]
    pub fn finish(self) -> Result<Confirmed<S>, VerifyError> {
        let tag = self.signature.tag();
        let matched = self.running.matching(tag).ok_or(VerifyError::Mismatch)?;
        Ok(Confirmed { tag: Tag::new(*tag), matched, scheme: PhantomData })
    }
}

impl<S: Scheme> fmt::Debug for Verifying<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifying").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// All pieces together were verified. Only this crate can make one.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed<S> {
    tag: Tag,
    matched: usize,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Confirmed<S> {
    /// The verified tag.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Which secret made the signature: 0 is the newest.
    pub fn matched_secret(&self) -> usize {
        self.matched
    }
}

/// A verification under way that keeps the pieces and gives them out only
/// when all of them together are verified.
///
/// ```
/// use webhook_verify::{MailSigner, MailVerifier, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = Secret::new("whsec_3f1c")?;
/// let header = MailSigner::new(&secret).sign("one two").to_string();
///
/// let mut collecting = MailVerifier::new(secret).collect(&header, 1024 * 1024)?;
/// collecting.push("one ")?;
/// collecting.push("two")?;
/// assert_eq!(collecting.finish()?.body(), b"one two");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is verified before `finish`"]
pub struct Collecting<S> {
    verifying: Verifying<S>,
    body: Vec<u8>,
    limit: usize,
    too_large: bool,
}

impl<S: Scheme> Collecting<S> {
    /// Takes the next piece.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] as soon as the limit is passed, and from then on. Give up
    /// then: answer 413.
    pub fn push(&mut self, piece: impl AsRef<[u8]>) -> Result<(), TooLarge> {
        let piece = piece.as_ref();
        self.too_large |= piece.len() > self.limit - self.body.len();
        if self.too_large {
            return Err(TooLarge { limit: self.limit });
        }
        self.verifying.update(piece);
        self.body.extend_from_slice(piece);
        Ok(())
    }

    /// Gives out the body, if it has the signature.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`], also when a piece was refused as too large:
    /// what is left without it is not what was sent.
    pub fn finish(self) -> Result<Verified<S, Vec<u8>>, VerifyError> {
        if self.too_large {
            return Err(VerifyError::Mismatch);
        }
        let confirmed = self.verifying.finish()?;
        Ok(Verified::new(self.body, confirmed.tag, confirmed.matched))
    }
}

impl<S: Scheme> fmt::Debug for Collecting<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting")
            .field("scheme", &S::NAME)
            .field("bytes", &self.body.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The body is larger than the limit: answer 413.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}
