//! `Streams`: standard input, output and error of a run, which its tasks and threads share. What is
//! written to the terminal takes the lock of the spinner's frame, so that lines never mix with it.
//! Secrets that `hide` was told of are replaced in everything that goes to standard error. A closed
//! standard error is ignored; a closed standard output is an error. `output.rs` decides what is
//! written.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::process::Terminals;

/// The standard streams.
#[derive(Clone)]
pub struct Streams(Arc<Shared>);

struct Shared {
    stdin: Mutex<Box<dyn Read + Send>>,
    stdout: Mutex<Box<dyn Write + Send>>,
    stderr: Mutex<Box<dyn Write + Send>>,
    terminals: Terminals,
    /// Whether the terminal supports no escape sequences (`TERM=dumb`).
    dumb: bool,
    /// Whether the terminal's last line is a frame of a spinner. Locked while anything is written to
    /// the terminal: the spinner runs in a task of its own.
    frame: Mutex<bool>,
    /// What is never written to standard error, each with what is written in its place.
    hidden: Mutex<Vec<Hidden>>,
}

struct Hidden {
    secret: String,
    shown: String,
}

/// A shorter secret could be a part of any word, so it is only hidden as a word of its own.
const MIN_PART: usize = 4;

pub(super) const CLEAR_LINE: &str = "\r\u{1b}[2K";

impl Streams {
    pub fn new(
        stdin: Box<dyn Read + Send>,
        stdout: Box<dyn Write + Send>,
        stderr: Box<dyn Write + Send>,
        terminals: Terminals,
        dumb: bool,
    ) -> Self {
        Self(Arc::new(Shared {
            stdin: Mutex::new(stdin),
            stdout: Mutex::new(stdout),
            stderr: Mutex::new(stderr),
            terminals,
            dumb,
            frame: Mutex::new(false),
            hidden: Mutex::default(),
        }))
    }

    pub(super) fn terminals(&self) -> Terminals {
        self.0.terminals
    }

    pub(super) fn is_dumb(&self) -> bool {
        self.0.dumb
    }

    /// The number of columns of standard output, if it is a terminal.
    pub(super) fn stdout_width(&self) -> Option<usize> {
        let terminals = self.0.terminals;
        let of_process = || Some(usize::from(terminal_size::terminal_size()?.0.0));
        terminals
            .stdout
            .then(|| terminals.width.or_else(of_process))
            .flatten()
    }

    pub(super) fn stderr_width(&self) -> usize {
        let size = || terminal_size::terminal_size_of(io::stderr());
        let of_process = || size().map_or(80, |(width, _)| usize::from(width.0));
        self.0.terminals.width.unwrap_or_else(of_process)
    }

    /// Writes to standard output, after clearing the spinner of the same terminal.
    pub(super) fn write_stdout(&self, text: &str) -> io::Result<()> {
        let _screen = self.0.terminals.stdout.then(|| self.clear_frame());
        let mut stdout = lock(&self.0.stdout);
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
    }

    /// The streams of the process itself, for a protocol, whose messages no other output may part.
    pub(crate) fn for_protocol() -> (tokio::io::Stdin, tokio::io::Stdout) {
        rmcp::transport::stdio()
    }

    /// Writes to standard error, after clearing the spinner.
    pub(super) fn write_stderr(&self, text: &str) {
        let text = self.without_secrets(text);
        let _screen = self.clear_frame();
        self.raw_stderr(text.as_bytes());
    }

    /// From now on, `shown` is written to standard error in place of a secret, such as a key of this
    /// run that a service repeats.
    pub(crate) fn hide(&self, secret: &str, shown: &str) {
        let mut hidden = lock(&self.0.hidden);
        if !secret.is_empty() && hidden.iter().all(|known| known.secret != secret) {
            let secret = secret.to_owned();
            let shown = shown.to_owned();
            hidden.push(Hidden { secret, shown });
        }
    }

    /// The text with hidden secrets replaced, also in the form that they have in JSON.
    pub(super) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for Hidden { secret, shown } in &*lock(&self.0.hidden) {
            let in_json = json!(secret).to_string();
            for form in [secret.as_str(), in_json.trim_matches('"')] {
                if text.contains(form) {
                    text = Cow::Owned(replaced(&text, form, shown));
                }
            }
        }
        text
    }

    /// Ignores errors: a closed standard error is not a failure.
    fn raw_stderr(&self, bytes: &[u8]) {
        let mut stderr = lock(&self.0.stderr);
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    }

    /// Draws what `frame` returns, if anything. Nothing else is written meanwhile.
    pub(super) fn draw(&self, frame: impl FnOnce() -> Option<String>) -> bool {
        let mut shown = lock(&self.0.frame);
        let Some(text) = frame() else { return false };
        *shown = true;
        self.raw_stderr(text.as_bytes());
        true
    }

    /// Clears the spinner. It is not drawn until the guard is dropped.
    pub(super) fn clear_frame(&self) -> MutexGuard<'_, bool> {
        let mut shown = lock(&self.0.frame);
        if std::mem::take(&mut *shown) {
            self.raw_stderr(CLEAR_LINE.as_bytes());
        }
        shown
    }

    /// Reads a line of standard input, with its end. Reads no further.
    pub(super) fn read_line(&self) -> io::Result<String> {
        let mut stdin = lock(&self.0.stdin);
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') && stdin.read(&mut byte)? > 0 {
            line.push(byte[0]);
        }
        String::from_utf8(line).map_err(io::Error::other)
    }

    /// Standard input.
    pub(crate) fn stdin(&self) -> Stdin {
        Stdin(self.clone())
    }
}

fn replaced(text: &str, secret: &str, shown: &str) -> String {
    if secret.len() >= MIN_PART {
        return text.replace(secret, shown);
    }

    let mut result = String::new();
    let mut end = 0;
    for (start, _) in text.match_indices(secret) {
        let before = text[..start].chars().next_back();
        let after = text[start + secret.len()..].chars().next();
        if before.is_some_and(char::is_alphanumeric) || after.is_some_and(char::is_alphanumeric) {
            continue;
        }
        result.push_str(&text[end..start]);
        result.push_str(shown);
        end = start + secret.len();
    }

    result.push_str(&text[end..]);
    result
}

/// Reads standard input.
pub(crate) struct Stdin(Streams);

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        lock(&self.0.0.stdin).read(buffer)
    }
}

pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
