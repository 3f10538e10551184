//! Generation of DKIM keys.

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::{DkimError, SANDBOX_KEY};

/// A key in its stored form, a PKCS#8 document.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// Returns a new RSA-2048 key.
///
/// Generating one takes 200 to 450 ms of CPU time, so it happens on a blocking thread, two at
/// the same time: large messages are worked on by the same threads.
pub(crate) async fn new_key() -> Result<StoredKey, DkimError> {
    static FREE: Semaphore = Semaphore::const_new(2);
    let _permit = FREE.acquire().await;
    tokio::task::spawn_blocking(generate_key).await.map_err(|_| FAILED)?
}

/// As [`new_key`], on this thread.
pub(crate) fn generate_key() -> Result<StoredKey, DkimError> {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048);
    let document = key.map_err(|_| FAILED)?.to_pkcs8_der();
    Ok(Zeroizing::new(document.map_err(|_| FAILED)?.as_bytes().to_vec()))
}

/// A ready key for a domain with a reserved name, which no public zone has: making one takes
/// seconds in a debug build. It is not secret, so a server that others can reach has none.
pub(crate) fn ready_key(is_reserved: bool, exposed: bool) -> Option<StoredKey> {
    (is_reserved && !exposed).then(|| Zeroizing::new(SANDBOX_KEY.to_vec()))
}

/// No thread could be started, or the system provided no random numbers.
const FAILED: DkimError = DkimError("cannot generate a DKIM key");
