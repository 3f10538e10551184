//! New keys. One takes 200 to 450 ms to make, so threads of their own make them,
//! and once somebody has wanted one the next ones are made ahead.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// A key in its stored form.
pub(crate) type StoredKey = Zeroizing<Vec<u8>>;

/// A new RSA-2048 key: at once where one was made ahead.
pub(crate) async fn new_key() -> Result<StoredKey, NoKey> {
    let (sender, receiver) = oneshot::channel();
    {
        let mut state = lock();
        match state.ready.pop_front() {
            Some(key) => {
                state.start_maker();
                return Ok(key);
            }
            None => state.waiting.push_back(sender),
        }
        state.start_maker();
    }
    receiver.await.map_err(|_| NoKey)
}

/// No thread could be started, or the system gave no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a DKIM key could not be made")]
pub(crate) struct NoKey;

/// How many keys are made ahead.
const READ_AHEAD: usize = 2;

/// One for the whole process: keys are as good for one server as for another.
static STATE: Mutex<State> =
    Mutex::new(State { ready: VecDeque::new(), waiting: VecDeque::new(), makers: 0 });

struct State {
    ready: VecDeque<StoredKey>,
    waiting: VecDeque<oneshot::Sender<StoredKey>>,
    makers: usize,
}

impl State {
    /// Starts one more thread, unless there are as many as there is work or there are processors.
    fn start_maker(&mut self) {
        let wanted = self.waiting.len().max(1);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if self.makers < wanted.min(cores) {
            self.makers += 1;
            let started = thread::Builder::new().name("dkim-keys".into()).spawn(make_keys);
            if started.is_err() {
                self.makers -= 1;
                if self.makers == 0 {
                    // Whoever waits learns it from the dropped sender.
                    self.waiting.clear();
                }
            }
        }
    }

    fn is_satisfied(&self) -> bool {
        self.waiting.is_empty() && (self.ready.len() >= READ_AHEAD || self.makers > 1)
    }
}

fn make_keys() {
    loop {
        {
            let mut state = lock();
            state.waiting.retain(|waiting| !waiting.is_closed());
            if state.is_satisfied() {
                state.makers -= 1;
                return;
            }
        }
        let key = make_key();
        let mut state = lock();
        let Some(key) = key else {
            state.makers -= 1;
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

fn make_key() -> Option<StoredKey> {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).ok()?;
    let document = key.to_pkcs8_der().ok()?;
    Some(Zeroizing::new(document.as_bytes().to_vec()))
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
