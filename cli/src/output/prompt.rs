//! Prompts on a terminal. A separate thread reads the answer, so that Ctrl-C ends the program
//! while it waits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use super::Printer;
use super::text::printable;
use crate::failure::{Failure, Kind};

/// Whether the terminal's last line is a prompt without a line end.
static OPEN: AtomicBool = AtomicBool::new(false);

impl Printer {
    /// Asks a question and reads a line. `None` at the end of input.
    pub async fn ask(&self, question: &str) -> Result<Option<String>, Failure> {
        visible(|| self.write_stderr(&printable(question))).await
    }

    /// As [`Printer::ask`], until `read` accepts the answer: reports the problem and asks again.
    /// `None` for an empty answer, too.
    pub async fn ask_until<T>(
        &self,
        question: &str,
        read: impl Fn(&str) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        loop {
            let Some(answer) = self.ask(question).await?.filter(|answer| !answer.is_empty()) else {
                return Ok(None);
            };
            match read(&answer) {
                Ok(value) => return Ok(Some(value)),
                Err(problem) => self.failure(&problem),
            }
        }
    }

    /// Asks a question and reads a line without echo.
    pub async fn ask_hidden(&self, question: &str) -> Result<String, Failure> {
        hidden(|| self.write_stderr(&printable(question))).await
    }
}

/// Asks and reads a line, trimmed. `None` at the end of input.
async fn visible(ask: impl FnOnce()) -> Result<Option<String>, Failure> {
    let typed = answer(ask, read_line).await?;
    if typed.ends_with('\n') {
        OPEN.store(false, Ordering::Relaxed);
    }
    Ok((!typed.is_empty()).then(|| typed.trim().to_owned()))
}

/// Asks and reads a line without echo.
async fn hidden(ask: impl FnOnce()) -> Result<String, Failure> {
    // Turn echo off before asking, so that a key pasted immediately is not shown.
    #[cfg(unix)]
    let _echo = Echo::off()?;
    #[cfg(unix)]
    let typed = answer(ask, read_line).await?;
    #[cfg(not(unix))]
    let typed = answer(ask, rpassword::read_password).await? + "\n";
    if typed.ends_with('\n') {
        OPEN.store(false, Ordering::Relaxed);
    }
    Ok(typed)
}

fn read_line() -> std::io::Result<String> {
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    Ok(typed)
}

/// Whether a prompt is open.
pub(super) fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed)
}

/// Closes an open prompt and returns whether there was one.
pub(super) fn take_open() -> bool {
    OPEN.swap(false, Ordering::Relaxed)
}

async fn answer<T: Send + 'static>(
    ask: impl FnOnce(),
    read: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    // Register the signal handler before asking.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    poll_fn(|context| {
        let _ = interrupted.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    ask();
    OPEN.store(true, Ordering::Relaxed);
    tokio::select! {
        read = tokio::task::spawn_blocking(read) => {
            Ok(read.map_err(|error| Failure::other(error.to_string()))??)
        }
        _ = interrupted => Err(Failure::new(Kind::Interrupted, "interrupted")),
    }
}

/// Disables the terminal's echo and restores its modes on drop, also after Ctrl-C, which still
/// raises a signal.
#[cfg(unix)]
struct Echo {
    before: rustix::termios::Termios,
}

#[cfg(unix)]
impl Echo {
    fn off() -> Result<Self, Failure> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).map_err(std::io::Error::from)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // Echo the line end, so that later output starts on a new line.
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(stdin, OptionalActions::Now, &hidden).map_err(std::io::Error::from)?;
        Ok(Self { before })
    }
}

#[cfg(unix)]
impl Drop for Echo {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}
