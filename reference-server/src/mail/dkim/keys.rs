//! Generation of DKIM keys.

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use zeroize::Zeroizing;

/// A key in its stored form, a PKCS#8 document.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// Returns a new RSA-2048 key.
///
/// Generating one takes 200 to 450 ms of CPU time, so it happens on a blocking thread, and the
/// caller bounds how many are generated at the same time.
pub(crate) async fn new_key() -> Result<StoredKey, KeyGenerationFailed> {
    let key = tokio::task::spawn_blocking(generate).await.map_err(|_| KeyGenerationFailed)?;
    key.ok_or(KeyGenerationFailed)
}

/// No thread could be started, or the system provided no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a DKIM key")]
pub(crate) struct KeyGenerationFailed;

fn generate() -> Option<StoredKey> {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).ok()?;
    let document = key.to_pkcs8_der().ok()?;
    Some(Zeroizing::new(document.as_bytes().to_vec()))
}
