//! A spinner on standard error for operations that take longer than half a second.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tabled::grid::util::string::get_text_width;
use tokio::task::JoinHandle;

/// Delay before the first frame.
const DELAY: Duration = Duration::from_millis(500);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
pub(super) const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Whether the terminal's last line is a frame. Locked while anything is written to the terminal:
/// the spinner runs on another thread.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Shows a spinner until it is dropped.
#[must_use]
pub struct Spinner {
    task: Option<JoinHandle<()>>,
    /// `None` once the spinner has ended.
    what: Arc<Mutex<Option<String>>>,
    write: fn(&str),
}

impl Spinner {
    pub(super) fn start(shown: bool, what: String, write: fn(&str)) -> Self {
        let what = Arc::new(Mutex::new(Some(what)));
        let shared = Arc::clone(&what);
        let task = (shown && tokio::runtime::Handle::try_current().is_ok()).then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                for frame in FRAMES.iter().cycle() {
                    if !draw(frame, &shared, write) {
                        break;
                    }
                    tokio::time::sleep(FRAME_INTERVAL).await;
                }
            })
        });
        Self { task, what, write }
    }

    /// Changes the text from the next frame on.
    pub fn set_text(&self, what: String) {
        *lock(&self.what) = Some(what);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // The task may be running, and end only after its next frame.
            *lock(&self.what) = None;
            drop(clear(self.write));
        }
    }
}

/// Draws a frame. Returns `false` if the spinner has ended.
fn draw(frame: &str, what: &Mutex<Option<String>>, write: fn(&str)) -> bool {
    let mut shown = lock(&SHOWN);
    let Some(what) = lock(what).clone() else { return false };
    *shown = true;
    write(&format!("{CLEAR_LINE}{frame} {}", fitted(&what, super::stderr_width())));
    true
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Clears the frame before other output. No frame is drawn until the returned guard is dropped.
pub(super) fn clear(write: fn(&str)) -> MutexGuard<'static, bool> {
    let mut shown = lock(&SHOWN);
    if std::mem::take(&mut *shown) {
        write(CLEAR_LINE);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its last frame would be in front of what is printed next.
    #[tokio::test]
    async fn no_frame_is_drawn_after_the_end() {
        static DRAWN: Mutex<String> = Mutex::new(String::new());
        let write = |text: &str| lock(&DRAWN).push_str(text);
        let spinner = Spinner::start(true, "reading".to_owned(), write);
        let what = Arc::clone(&spinner.what);
        assert!(draw("⠋", &what, write));
        drop(spinner);
        assert!(!draw("⠙", &what, write));
        assert_eq!(*lock(&DRAWN), format!("{CLEAR_LINE}⠋ reading{CLEAR_LINE}"));
    }

    #[test]
    fn frames_fit_on_one_line() {
        assert_eq!(fitted("reading", 80), "reading");
        assert_eq!(fitted("waiting for eml_1", 20), "waiting for eml_1");
        assert_eq!(fitted("waiting for eml_12", 20), "waiting for eml_…");
        assert_eq!(fitted("読読読読読", 10), "読読読…");
        assert_eq!(fitted("reading", 0), "…");
    }
}
