//! A spinner on standard error for operations that take longer than half a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabled::grid::util::string::get_text_width;
use tokio::task::JoinHandle;

/// Delay before the first frame.
const DELAY: Duration = Duration::from_millis(500);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
pub(super) const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Whether the terminal's last line is a frame.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Shows a spinner until it is dropped.
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
                tokio::time::sleep(DELAY).await;
                for frame in FRAMES.iter().cycle() {
                    SHOWN.store(true, Ordering::Relaxed);
                    let what = shared.lock().map(|what| what.clone()).unwrap_or_default();
                    write(&format!("{CLEAR_LINE}{frame} {}", fitted(&what, super::stderr_width())));
                    tokio::time::sleep(FRAME_INTERVAL).await;
                }
            })
        });
        Self { task, what, write }
    }

    /// Changes the text from the next frame on.
    pub fn set_text(&self, what: String) {
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

/// Truncates the text so that a frame never wraps: only one line is cleared afterwards.
fn fitted(what: &str, width: usize) -> String {
    let available = width.saturating_sub(3);
    if get_text_width(what) <= available {
        return what.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += get_text_width(c.encode_utf8(&mut [0; 4]));
        used <= available
    };
    what.chars().take_while(fits).chain(['…']).collect()
}

/// Clears the frame before other output.
pub(super) fn clear(write: fn(&str)) {
    if SHOWN.swap(false, Ordering::Relaxed) {
        write(CLEAR_LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_fit_on_one_line() {
        assert_eq!(fitted("reading", 80), "reading");
        assert_eq!(fitted("waiting for eml_1", 20), "waiting for eml_1");
        assert_eq!(fitted("waiting for eml_12", 20), "waiting for eml_…");
        assert_eq!(fitted("読読読読読", 10), "読読読…");
        assert_eq!(fitted("reading", 0), "…");
    }
}
