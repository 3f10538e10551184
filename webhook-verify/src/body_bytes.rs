//! The types that can hold a verified body.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A type that can hold a verified body: it returns the same bytes every time.
///
/// These are slices, arrays, strings, `Vec`, `Box`, `Rc`, `Arc`, `Cow`, and references to
/// them, and with the feature of an adapter `bytes::Bytes`. For another type, pass its bytes:
/// `verify(header, &body[..])`.
///
/// This trait is sealed and cannot be implemented outside this crate. A type whose
/// `AsRef` returned other bytes after the verification would make a forged
/// [`Delivery`](crate::Delivery):
///
/// ```compile_fail,E0277
/// use webhook_verify::{MailVerifier, Secret};
///
/// struct Changing(std::cell::Cell<bool>);
///
/// impl AsRef<[u8]> for Changing {
///     fn as_ref(&self) -> &[u8] {
///         if self.0.replace(true) { b"forged" } else { b"genuine" }
///     }
/// }
///
/// let verifier = MailVerifier::new(Secret::new("whsec_3f1c").unwrap());
/// let _ = verifier.verify("", Changing(false.into()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to return the same bytes every time",
    note = "pass its bytes instead: `&body[..]` or `body.as_ref()`"
)]
pub trait BodyBytes: sealed::Sealed + AsRef<[u8]> {}

impl<T: sealed::Sealed + AsRef<[u8]> + ?Sized> BodyBytes for T {}

mod sealed {
    use super::{Arc, Box, Cow, Rc, String, Vec};

    pub trait Sealed {}

    impl Sealed for [u8] {}
    impl<const N: usize> Sealed for [u8; N] {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for Vec<u8> {}
    impl Sealed for Box<[u8]> {}
    impl Sealed for Rc<[u8]> {}
    impl Sealed for Arc<[u8]> {}
    impl Sealed for Cow<'_, [u8]> {}
    #[cfg(feature = "_receiver")]
    impl Sealed for bytes::Bytes {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}
