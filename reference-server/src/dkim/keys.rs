//! Generation of DKIM keys. One key takes 200 to 450 ms, so separate threads generate
//! them, and after the first request they generate some in advance.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// A key in its stored form, a PKCS#8 document.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// Returns a new RSA-2048 key, at once if one was generated in advance.
pub(crate) async fn new_key() -> Result<StoredKey, KeyGenerationFailed> {
    let (sender, receiver) = oneshot::channel();
    {
        let mut state = lock();
        match state.ready.pop_front() {
            Some(key) => {
                state.start_thread();
                return Ok(key);
            }
            None => state.waiting.push_back(sender),
        }
        state.start_thread();
    }
    receiver.await.map_err(|_| KeyGenerationFailed)
}

/// No thread could be started, or the system provided no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a DKIM key")]
pub(crate) struct KeyGenerationFailed;

/// Number of keys generated in advance.
const SPARE_KEYS: usize = 2;

/// Shared by all servers of the process.
static STATE: Mutex<State> =
    Mutex::new(State { ready: VecDeque::new(), waiting: VecDeque::new(), threads: 0 });

struct State {
    ready: VecDeque<StoredKey>,
    waiting: VecDeque<oneshot::Sender<StoredKey>>,
    threads: usize,
}

impl State {
    /// Starts another thread, unless enough are running for the waiting requests and
    /// the available processors.
    fn start_thread(&mut self) {
        let wanted = self.waiting.len().max(1);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if self.threads < wanted.min(cores) {
            self.threads += 1;
            let started = thread::Builder::new().name("dkim-keys".into()).spawn(generate_keys);
            if started.is_err() {
                self.threads -= 1;
                if self.threads == 0 {
                    // Dropping the senders fails the waiting requests.
                    self.waiting.clear();
                }
            }
        }
    }

    fn is_satisfied(&self) -> bool {
        self.waiting.is_empty() && (self.ready.len() >= SPARE_KEYS || self.threads > 1)
    }
}

fn generate_keys() {
    loop {
        {
            let mut state = lock();
            state.waiting.retain(|waiting| !waiting.is_closed());
            if state.is_satisfied() {
                state.threads -= 1;
                return;
            }
        }
        let key = generate_key();
        let mut state = lock();
        let Some(key) = key else {
            state.threads -= 1;
            state.waiting.clear();
            return;
        };
        let mut key = Some(key);
        while let Some(ready) = key.take() {
            match state.waiting.pop_front() {
                Some(waiting) => key = waiting.send(ready).err(),
                None => state.ready.push_back(ready),
            }
        }
    }
}

fn generate_key() -> Option<StoredKey> {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).ok()?;
    let document = key.to_pkcs8_der().ok()?;
    Some(Zeroizing::new(document.as_bytes().to_vec()))
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
