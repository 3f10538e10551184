//! Generation of DKIM keys.

use std::sync::LazyLock;
use std::thread;

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// A key in its stored form, a PKCS#8 document.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// Returns a new RSA-2048 key.
///
/// Generating one takes 200 to 450 ms of CPU time. It happens on a blocking thread, at
/// most one for each processor, so that many new domains leave blocking threads for
/// reads of the database.
pub(crate) async fn new_key() -> Result<StoredKey, KeyGenerationFailed> {
    let _permit = SLOTS.acquire().await.map_err(|_| KeyGenerationFailed)?;
    let key = tokio::task::spawn_blocking(generate).await.map_err(|_| KeyGenerationFailed)?;
    key.ok_or(KeyGenerationFailed)
}

/// No thread could be started, or the system provided no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a DKIM key")]
pub(crate) struct KeyGenerationFailed;

/// Shared by all servers of the process.
static SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(1, usize::from)));

fn generate() -> Option<StoredKey> {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).ok()?;
    let document = key.to_pkcs8_der().ok()?;
    Some(Zeroizing::new(document.as_bytes().to_vec()))
}
