//! Generation of DKIM keys.

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use zeroize::Zeroizing;

use super::SANDBOX_KEY;
use crate::model::error::Failure;

/// A key in its stored form, a PKCS#8 document.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// Returns a new RSA-2048 key, which takes 200 to 450 ms of CPU time, and seconds in a debug build.
///
/// A domain with a reserved name, which no public zone has, gets a ready one. It is not secret, so a
/// server that others can reach does not use it.
pub(crate) fn new_key(is_reserved: bool, exposed: bool) -> Result<StoredKey, Failure> {
    if is_reserved && !exposed {
        return Ok(Zeroizing::new(SANDBOX_KEY.to_vec()));
    }
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).map_err(Failure::internal)?;
    let document = key.to_pkcs8_der().map_err(Failure::internal)?;
    Ok(Zeroizing::new(document.as_bytes().to_vec()))
}
