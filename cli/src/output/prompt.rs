//! Questions on a terminal. They are read in a thread of their own, so that
//! Ctrl-C ends the program while it waits for an answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crate::failure::{Failure, Kind};

/// Whether the terminal's last line is a question that nobody has ended.
static OPEN: AtomicBool = AtomicBool::new(false);

/// What is typed, without white space around it; `None` at the end of input.
pub(super) async fn visible(ask: impl FnOnce()) -> Result<Option<String>, Failure> {
    let typed = answer(ask, read_line).await?;
    if typed.ends_with('\n') {
        OPEN.store(false, Ordering::Relaxed);
    }
    Ok((!typed.is_empty()).then(|| typed.trim().to_owned()))
}

/// What is typed, not shown.
pub(super) async fn hidden(ask: impl FnOnce()) -> Result<String, Failure> {
    // Before the question is seen: a key that is pasted at once is not shown either.
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

/// Whether a question stands open.
pub(super) fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed)
}

/// Whether a question stood open; from now on it does not.
pub(super) fn stands_open() -> bool {
    OPEN.swap(false, Ordering::Relaxed)
}

async fn answer<T: Send + 'static>(
    ask: impl FnOnce(),
    read: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    // Heard from before the question is seen.
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

/// Typed characters are not shown until it is dropped, also where the question
/// is given up: then the terminal is as it was. Ctrl-C stays a signal.
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
        // The line's end is shown, so that what comes next has a line of its own.
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
