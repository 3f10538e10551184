//! The two signature schemes: both are HMAC-SHA256 over the raw body, in headers of different
//! names and formats. This module alone computes and compares tags.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::log_text::debug_fields;
use crate::rejection::Rejection;
use crate::secret::Secret;

/// One of the two services that send webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// The email service: `Mail-Signature: <hex>`.
    Email,
    /// The extraction service: `X-Service-Signature: sha256=<hex>`.
    Extraction,
}

impl Service {
    /// Both services.
    pub const ALL: [Self; 2] = [Self::Email, Self::Extraction];

    /// The service's name: `email` or `extraction`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Extraction => "extraction",
        }
    }

    /// The name of the header that carries the signature.
    pub const fn signature_header(self) -> &'static str {
        match self {
            Self::Email => "Mail-Signature",
            Self::Extraction => "X-Service-Signature",
        }
    }

    /// The name of the header that names the event, if the service's reference defines one. This
    /// header is **not signed**.
    pub const fn event_header(self) -> Option<&'static str> {
        match self {
            Self::Email => None,
            Self::Extraction => Some("X-Service-Event"),
        }
    }

    /// The text before the hex digits.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Email => "",
            Self::Extraction => "sha256=",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Parses the [`name`](Service::name).
impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Self, UnknownService> {
        Self::ALL
            .into_iter()
            .find(|service| service.name() == name)
            .ok_or(UnknownService)
    }
}

/// The text is not the name of a [`Service`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown service; use email or extraction")]
pub struct UnknownService;

/// A well-formed signature that is not verified yet.
///
/// The header must consist of the service's exact prefix and 64 hex digits in either case.
/// Whitespace, quotes, lists and other prefixes are errors.
///
/// ```
/// use webhook_verify::{Service, Signature};
///
/// let digits = "7f".repeat(32);
/// assert!(Signature::parse(Service::Email, &digits).is_ok());
/// assert!(Signature::parse(Service::Extraction, format!("sha256={digits}")).is_ok());
/// assert!(Signature::parse(Service::Extraction, format!("md5={digits}")).is_err());
/// ```
#[derive(Clone, Copy)]
pub struct Signature {
    service: Service,
    tag: [u8; 32],
}

impl Signature {
    /// Parses the value of a service's signature header.
    ///
    /// # Errors
    ///
    /// [`Rejection::MalformedSignature`] if the value does not have the service's format.
    pub fn parse(service: Service, value: impl AsRef<[u8]>) -> Result<Self, Rejection> {
        let digits = value.as_ref().strip_prefix(service.prefix().as_bytes());
        let mut tag = [0; 32];
        hex::decode_to_slice(digits.ok_or(Rejection::MalformedSignature)?, &mut tag)
            .map_err(|_| Rejection::MalformedSignature)?;
        Ok(Self { service, tag })
    }

    /// Finds and parses the signature among all headers of a request. There must be exactly one
    /// header with a signature: otherwise a proxy and the receiver could see different ones.
    ///
    /// ```
    /// # use webhook_verify::Signature;
    /// # fn f(headers: &http::HeaderMap) -> Result<(), webhook_verify::Rejection> {
    /// let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    /// let signature = Signature::from_headers(headers)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejection::MissingSignature`], [`Rejection::DuplicateSignature`] or
    /// [`Rejection::MalformedSignature`].
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, Rejection> {
        let mut found = headers.into_iter().filter_map(|(name, value)| {
            let is_of = |service: &Service| name.eq_ignore_ascii_case(service.signature_header());
            Some((Service::ALL.into_iter().find(is_of)?, value))
        });
        let (service, value) = found.next().ok_or(Rejection::MissingSignature)?;
        match found.next() {
            Some(_) => Err(Rejection::DuplicateSignature),
            None => Self::parse(service, value),
        }
    }

    /// Signs a body as a service does, to test a receiver or to send deliveries. `Display` is the
    /// value of the [header](Service::signature_header).
    ///
    /// ```
    /// use webhook_verify::{Secret, Service, Signature};
    ///
    /// let secret = Secret::new("whsec_3f1c")?;
    /// let value = Signature::sign(Service::Extraction, &secret, "{}").to_string();
    /// assert!(value.starts_with("sha256="));
    /// # Ok::<(), webhook_verify::SecretError>(())
    /// ```
    pub fn sign(service: Service, secret: &Secret, body: impl AsRef<[u8]>) -> Self {
        Self {
            service,
            tag: HmacKey::new(secret).tag(body.as_ref()),
        }
    }

    /// The service whose header this is.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The verified tag in hex digits. It identifies byte-identical bodies.
    pub(crate) fn hex(&self) -> String {
        hex::encode(self.tag)
    }

    /// Whether the key signed the body. Takes the same time wherever the tags differ.
    pub(crate) fn is_of(&self, key: &HmacKey, body: &[u8]) -> bool {
        self.tag.ct_eq(&key.tag(body)).into()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.service.prefix(), self.hex())
    }
}

debug_fields!(Signature: service);

/// Where [`Verifier::verify`](crate::Verifier::verify) finds a signature: the value of the header, as
/// text or bytes, or all headers of a request, [`http::HeaderMap`], of which exactly one must carry a
/// signature.
pub trait SignatureSource: sealed::Read {}

impl<T: sealed::Read> SignatureSource for T {}

mod sealed {
    use super::{Rejection, Service, Signature};

    pub trait Read {
        fn read(self) -> Result<Signature, Rejection>;
    }

    impl Read for &http::HeaderMap {
        fn read(self) -> Result<Signature, Rejection> {
            let headers = self.iter();
            Signature::from_headers(headers.map(|(name, value)| (name.as_str(), value.as_bytes())))
        }
    }

    /// The formats of the two headers differ, so the value tells which service signed.
    fn parse(value: &[u8]) -> Result<Signature, Rejection> {
        Signature::parse(Service::Extraction, value)
            .or_else(|_| Signature::parse(Service::Email, value))
    }

    macro_rules! reads_value {
        ($($type:ty $(, $length:ident)?);+ $(;)?) => {$(
            impl$(<const $length: usize>)? Read for $type {
                fn read(self) -> Result<Signature, Rejection> {
                    parse(self.as_ref())
                }
            }
        )+};
    }

    reads_value!(
        &str; String; &String; &[u8]; Vec<u8>; &Vec<u8>; bytes::Bytes; &bytes::Bytes;
        [u8; N], N; &[u8; N], N; http::HeaderValue; &http::HeaderValue;
    );
}

/// HMAC-SHA256 keyed with a secret. Keying hashes two blocks, so it is done once, and the keyed
/// state is cloned for every body. The features `zeroize` of `hmac` and `sha2` overwrite it on drop.
#[derive(Clone)]
pub(crate) struct HmacKey(Hmac<Sha256>);

impl From<Secret> for HmacKey {
    fn from(secret: Secret) -> Self {
        Self::new(&secret)
    }
}

impl HmacKey {
    fn new(secret: &Secret) -> Self {
        let key = Hmac::new_from_slice(secret.as_bytes());
        Self(key.expect("HMAC accepts keys of any length"))
    }

    /// Keys are equal if they produce equal tags.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.tag(b"").ct_eq(&other.tag(b"")).into()
    }

    fn tag(&self, body: &[u8]) -> [u8; 32] {
        let mac = self.0.clone().chain_update(body);
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::Digest as _;

    use super::*;

    /// HMAC as RFC 2104 defines it, on top of SHA-256 only.
    fn rfc_2104(key: &[u8], body: &[u8]) -> [u8; 32] {
        let mut block = [0; 64];
        if key.len() <= block.len() {
            block[..key.len()].copy_from_slice(key);
        } else {
            block[..32].copy_from_slice(&Sha256::digest(key));
        }

        let inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36)).chain_update(body);
        let outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5C));
        outer.chain_update(inner.finalize()).finalize().into()
    }

    proptest! {
        #[test]
        fn tags_match_rfc_2104(key: Vec<u8>, body in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(secret) = Secret::from_bytes(key.clone()) {
                prop_assert_eq!(HmacKey::new(&secret).tag(&body), rfc_2104(&key, &body));
            }
        }
    }

    #[test]
    fn tags_that_differ_in_any_bit_are_not_equal() {
        let secret = Secret::new("whsec_3f1c").unwrap();
        let key = HmacKey::new(&secret);
        let signature = Signature::sign(Service::Email, &secret, "{}");
        assert!(signature.is_of(&key, b"{}"));
        for bit in 0..256 {
            let mut other = signature;
            other.tag[bit / 8] ^= 1 << (bit % 8);
            assert!(!other.is_of(&key, b"{}"), "bit {bit}");
        }
    }
}
