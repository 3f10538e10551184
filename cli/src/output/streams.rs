//! The standard streams of a process.

use std::io::IsTerminal as _;

/// Properties of the standard streams.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub stdin_is_terminal: bool,
    pub stdout_is_terminal: bool,
    pub stderr_is_terminal: bool,
    /// Whether the terminal supports no escape sequences (`TERM=dumb`).
    pub dumb: bool,
}

impl Streams {
    /// The streams of this process.
    pub fn of_process() -> Self {
        Self {
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

#[cfg(feature = "sandbox")]
impl super::Printer {
    /// Whether standard output is a terminal, so that a person sees the result.
    pub fn stdout_is_terminal(&self) -> bool {
        self.streams.stdout_is_terminal
    }
}
