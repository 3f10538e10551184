//! Prompts on a terminal. A separate thread reads the answer, so that Ctrl-C ends the program
//! while it waits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::Printer;
#[cfg(unix)]
use super::Streams;
use super::text::printable;
use crate::failure::{Failure, Kind};
use crate::stop;
#[cfg(unix)]
use crate::stop::StopSignal;

impl Printer {
    /// Asks a question and reads a line, trimmed. `None` at the end of input.
    pub async fn ask(&self, question: &str) -> Result<Option<String>, Failure> {
        let stdin = self.streams.clone();
        let typed = self.answer(question, move || stdin.read_line()).await?;
        Ok((!typed.is_empty()).then(|| typed.trim().to_owned()))
    }

    /// Like [`Printer::ask`], until `read` accepts the answer: reports the problem and asks again.
    /// `None` for an empty answer, too.
    pub async fn ask_until<T>(
        &self,
        question: &str,
        read: impl Fn(&str) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        loop {
            let Some(answer) = self
                .ask(question)
                .await?
                .filter(|answer| !answer.is_empty())
            else {
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
        // Turn echo off before asking, so that a key pasted immediately is not shown.
        #[cfg(unix)]
        let _echo = match self.streams.terminals().width {
            None => Some(Echo::off(self.signals, self.streams.clone())?),
            Some(_) => None,
        };
        #[cfg(unix)]
        let stdin = self.streams.clone();
        #[cfg(unix)]
        let read = move || stdin.read_line();
        #[cfg(not(unix))]
        let read = || rpassword::read_password().map(|typed| typed + "\n");
        self.answer(question, read).await
    }

    async fn answer(
        &self,
        question: &str,
        read: impl FnOnce() -> std::io::Result<String> + Send + 'static,
    ) -> Result<String, Failure> {
        // Register the signal handler before asking.
        let mut interrupted = pin!(stop::interrupted(self.signals));
        poll_fn(|context| {
            let _ = interrupted.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        self.streams.write_stderr(&printable(question));
        tokio::select! {
            read = tokio::task::spawn_blocking(read) => {
                let typed = read.map_err(|error| Failure::other(error.to_string()))??;
                if !typed.ends_with('\n') {
                    self.streams.write_stderr("\n");
                }
                Ok(typed)
            }
            _ = interrupted => Err(Failure::new(Kind::Interrupted, "interrupted")),
        }
    }
}

/// Disables the terminal's echo and restores its modes on drop, also after Ctrl-C, which still
/// raises a signal, and before SIGTERM or SIGHUP ends the process.
#[cfg(unix)]
struct Echo {
    before: rustix::termios::Termios,
}

#[cfg(unix)]
impl Echo {
    fn off(signals: bool, streams: Streams) -> Result<Self, Failure> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).map_err(std::io::Error::from)?;
        if signals {
            // The handlers stay for the rest of the run, so this does, too.
            let mut stop = StopSignal::listen(true)?;
            let restored = before.clone();
            tokio::spawn(async move {
                let code = stop.terminated().await;
                let _ = tcsetattr(stdin, OptionalActions::Now, &restored);
                // The shell's prompt begins on a line of its own.
                streams.write_stderr("\n");
                std::process::exit(code);
            });
        }

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
