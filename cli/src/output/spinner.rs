//! A spinner on standard error for operations that take longer than half a second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::streams::{CLEAR_LINE, Streams, lock};
use super::table::shortened;

/// Delay before the first frame.
const DELAY: Duration = Duration::from_millis(500);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Shows a spinner until it is dropped.
#[must_use]
pub struct Spinner {
    task: Option<JoinHandle<()>>,
    /// `None` once the spinner has ended.
    what: Arc<Mutex<Option<String>>>,
    streams: Streams,
}

impl Spinner {
    pub(super) fn start(shown: bool, what: String, streams: &Streams) -> Self {
        let what = Arc::new(Mutex::new(Some(what)));
        let streams = streams.clone();
        let shared = Arc::clone(&what);
        let screen = streams.clone();
        let task = (shown && tokio::runtime::Handle::try_current().is_ok()).then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                for frame in FRAMES.iter().cycle() {
                    if !draw(frame, &shared, &screen) {
                        break;
                    }
                    tokio::time::sleep(FRAME_INTERVAL).await;
                }
            })
        });
        Self {
            task,
            what,
            streams,
        }
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
            drop(self.streams.clear_frame());
        }
    }
}

/// Draws a frame. Returns `false` if the spinner has ended.
fn draw(frame: &str, what: &Mutex<Option<String>>, screen: &Streams) -> bool {
    screen.draw(|| {
        let what = lock(what).clone()?;
        // A frame never wraps: only one line is cleared afterwards.
        let what = shortened(&what, screen.stderr_width().saturating_sub(3));
        Some(format!("{CLEAR_LINE}{frame} {what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Terminals;

    /// Its last frame would be in front of what is printed next.
    #[tokio::test]
    async fn no_frame_is_drawn_after_the_end() {
        #[derive(Clone, Default)]
        struct Drawn(Arc<Mutex<Vec<u8>>>);

        impl std::io::Write for Drawn {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                lock(&self.0).write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let drawn = Drawn::default();
        let terminals = Terminals {
            stderr: true,
            width: Some(80),
            ..Terminals::default()
        };
        let stdin = Box::new(std::io::empty());
        let stdout = Box::new(std::io::sink());
        let streams = Streams::new(stdin, stdout, Box::new(drawn.clone()), terminals, false);
        let spinner = Spinner::start(true, "reading".to_owned(), &streams);
        let what = Arc::clone(&spinner.what);
        assert!(draw("⠋", &what, &streams));
        drop(spinner);
        assert!(!draw("⠙", &what, &streams));
        let drawn = String::from_utf8(lock(&drawn.0).clone()).expect("UTF-8");
        assert_eq!(drawn, format!("{CLEAR_LINE}⠋ reading{CLEAR_LINE}"));
    }
}
