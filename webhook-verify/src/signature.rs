//! Parses and formats signature headers.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use crate::mac::tags_equal;
use crate::{Scheme, VerifyError};

/// A well-formed signature of scheme `S`, parsed from a header and not yet
/// verified.
///
/// The header must consist of the scheme's exact prefix and 64 hex digits in
/// either case. Whitespace, quotes, lists and other prefixes are errors.
///
/// ```
/// use webhook_verify::{Extraction, Mail, Signature};
///
/// let digits = "7f".repeat(32);
/// assert!(Signature::<Mail>::parse(&digits).is_ok());
/// assert!(Signature::<Extraction>::parse(format!("sha256={digits}")).is_ok());
/// assert!(Signature::<Extraction>::parse(&digits).is_err());
/// assert!(Signature::<Extraction>::parse(format!("md5={digits}")).is_err());
/// ```
#[derive(Clone, Copy)]
pub struct Signature<S> {
    tag: [u8; 32],
    scheme: PhantomData<S>,
}

impl<S: Scheme> Signature<S> {
    /// Parses the value of a signature header.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] if the value does not match the format.
    pub fn parse(header: impl AsRef<[u8]>) -> Result<Self, VerifyError> {
        let prefix = S::SIGNATURE_PREFIX.as_bytes();
        let digits = header.as_ref().strip_prefix(prefix).ok_or(VerifyError::MalformedSignature)?;
        let mut tag = [0; 32];
        hex::decode_to_slice(digits, &mut tag).map_err(|_| VerifyError::MalformedSignature)?;
        Ok(Self::from_tag(tag))
    }

    /// Parses the signature from all values of the signature header, of which
    /// there must be exactly one.
    ///
    /// Pass in every value of that header, for example
    /// `headers.get_all(S::SIGNATURE_HEADER)`. Picking the first or the last of
    /// several would allow a proxy and the receiver to see different signatures.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MissingSignature`] if there is no value,
    /// [`VerifyError::DuplicateSignature`] if there is more than one, and the
    /// errors of [`parse`](Self::parse).
    pub fn from_header_values<V: AsRef<[u8]>>(
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, VerifyError> {
        let mut values = values.into_iter();
        let value = values.next().ok_or(VerifyError::MissingSignature)?;
        if values.next().is_some() {
            return Err(VerifyError::DuplicateSignature);
        }
        Self::parse(value)
    }

    pub(crate) fn from_tag(tag: [u8; 32]) -> Self {
        Self { tag, scheme: PhantomData }
    }

    pub(crate) fn tag(&self) -> &[u8; 32] {
        &self.tag
    }
}

/// Formats the header's value, with lowercase hex digits.
impl<S: Scheme> fmt::Display for Signature<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", S::SIGNATURE_PREFIX, Hex(&self.tag))
    }
}

impl<S: Scheme> fmt::Debug for Signature<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signature").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// The HMAC-SHA256 tag of a verified body.
///
/// Byte-identical bodies have the same tag, so it identifies a delivery that has
/// no `id`. `Display` prints 64 lowercase hex digits. Tags are compared in
/// constant time.
#[derive(Clone, Copy)]
pub struct Tag([u8; 32]);

impl Tag {
    pub(crate) fn new(tag: [u8; 32]) -> Self {
        Self(tag)
    }

    /// The tag as bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Compares in constant time, so that a comparison does not reveal how many bytes match.
impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        tags_equal(&self.0, &other.0)
    }
}

impl Eq for Tag {}

impl Hash for Tag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({self})")
    }
}

/// Formats 32 bytes as 64 lowercase hex digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8; 32]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
