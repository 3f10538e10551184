//! A sign of life on standard error, for what takes longer than half a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

/// Nothing is shown before this time.
const PATIENCE: Duration = Duration::from_millis(500);
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Whether a frame stands on the terminal's last line right now.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Shows that something goes on until it is dropped.
#[must_use]
pub struct Spinner {
    task: Option<JoinHandle<()>>,
    what: Arc<Mutex<String>>,
    write: fn(&str),
}

impl Spinner {
    pub(super) fn start(shown: bool, what: String, write: fn(&str)) -> Self {
        let what = Arc::new(Mutex::new(what));
        let shared = Arc::clone(&what);
        let task = (shown && tokio::runtime::Handle::try_current().is_ok()).then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                for frame in FRAMES.iter().cycle() {
                    SHOWN.store(true, Ordering::Relaxed);
                    let what = shared.lock().map(|what| what.clone()).unwrap_or_default();
                    write(&format!("{CLEAR_LINE}{frame} {what}"));
                    tokio::time::sleep(FRAME).await;
                }
            })
        });
        Self { task, what, write }
    }

    /// Says something else from the next frame on.
    pub fn say(&self, what: String) {
        if let Ok(mut now) = self.what.lock() {
            *now = what;
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            clear(self.write);
        }
    }
}

/// Takes the frame away before something else is written.
pub(super) fn clear(write: fn(&str)) {
    if SHOWN.swap(false, Ordering::Relaxed) {
        write(CLEAR_LINE);
    }
}
