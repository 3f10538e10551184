//! The only file that prints: results to standard output, everything else to
//! standard error.

mod jq;
mod prompt;
mod spinner;
mod table;
mod text;
mod yaml;

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

pub(crate) use jq::Filter;
pub(crate) use table::local_time;
pub use table::{Column, Show, View};
pub(crate) use text::{one_line, printable};

use crate::failure::{Failure, Kind};
use table::Canvas;

/// What the service sent, as JSON.
pub fn to_value(answer: &impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

/// The items of a list, each as the service sent it.
pub fn to_values<T: serde::Serialize>(list: &[T]) -> Vec<Value> {
    list.iter().map(to_value).collect()
}

/// The code of a failure to write results.
pub const UNWRITTEN: &str = "output_failed";

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON document a line, as they come.
    Ndjson,
    /// One YAML document.
    Yaml,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Also where there is no terminal.
    Always,
    /// Never.
    Never,
}

/// What is known about the two streams before anything is printed.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub stdin_is_terminal: bool,
    pub stdout_is_terminal: bool,
    pub stderr_is_terminal: bool,
    /// Whether the terminal knows nothing but text: no colours, no going back.
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

/// Writes results, hints and errors in the way that was asked for.
pub struct Printer {
    format: Format,
    /// Whether the format was asked for, and is not the default.
    asked: bool,
    filter: Option<Filter>,
    streams: Streams,
    stdout_color: bool,
    stderr_color: bool,
    quiet: bool,
    verbose: bool,
}

impl Printer {
    /// A printer for resolved settings.
    pub fn new(
        format: Option<Format>,
        filter: Option<Filter>,
        streams: Streams,
        color: impl Fn(bool) -> bool,
        quiet: bool,
        verbose: bool,
    ) -> Self {
        let default = if streams.stdout_is_terminal { Format::Table } else { Format::Json };
        let default = if filter.is_some() { Format::Json } else { default };
        Self {
            format: format.unwrap_or(default),
            asked: format.is_some() || filter.is_some(),
            filter,
            streams,
            stdout_color: color(streams.stdout_is_terminal && !streams.dumb),
            stderr_color: color(streams.stderr_is_terminal && !streams.dumb),
            quiet,
            verbose,
        }
    }

    /// The format of results.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether results are for people.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Whether a person can be asked something.
    pub fn can_ask(&self) -> bool {
        self.streams.stdin_is_terminal && self.streams.stderr_is_terminal
    }

    /// Whether standard input is a terminal, so that reading it would wait for a person.
    pub fn stdin_is_terminal(&self) -> bool {
        self.streams.stdin_is_terminal
    }

    /// One thing.
    pub fn one(&self, value: &Value, view: View) -> Result<(), Failure> {
        if self.is_table() && value.is_object() {
            return self.write(&table::single(value, view, self.canvas()));
        }
        self.value(value)
    }

    /// One thing, shown to people as a table of several parts of it.
    pub fn one_as_list(&self, value: &Value, rows: &[Value], view: View) -> Result<(), Failure> {
        if self.is_table() {
            return self.write(&table::list(rows, view, self.canvas()));
        }
        self.json(value)
    }

    /// A list; `none` is what people see where it is empty.
    pub fn list(&self, items: &[Value], view: View, none: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table if items.is_empty() => {
                self.note(none);
                Ok(())
            }
            Format::Table => self.write(&table::list(items, view, self.canvas())),
            Format::Ndjson => items.iter().try_for_each(|item| self.json(item)),
            Format::Json | Format::Yaml => self.json(&Value::from(items)),
        }
    }

    /// What was done: a sentence for people, the value for programs.
    pub fn done(&self, sentence: &str, value: &Value) -> Result<(), Failure> {
        if self.is_table() {
            return self.write(&format!("{}\n", printable(sentence)));
        }
        self.json(value)
    }

    /// Something that happened while the command goes on: a line for people, a
    /// line of JSON for programs.
    pub fn event(&self, line: &str, value: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.write(&format!("{}\n", one_line(line))),
            Format::Json if self.filter.is_none() => {
                self.write(&text::json_safe(&format!("{value}\n")))
            }
            _ => self.json(value),
        }
    }

    /// As [`event`](Self::event), with the status of an HTTP answer in the
    /// colour of what it means.
    pub fn answered(
        &self,
        before: &str,
        status: u16,
        after: &str,
        value: &Value,
    ) -> Result<(), Failure> {
        if !self.is_table() {
            return self.event(before, value);
        }
        let text = status.to_string();
        let status =
            if self.stdout_color { table::answer_color(status).colorize(text) } else { text };
        self.write(&format!("{}{status}{}\n", one_line(before), one_line(after)))
    }

    /// A text that is the result itself (a script, a stored message): as
    /// [`raw_data`](Self::raw_data), and inside JSON only where JSON was asked for.
    pub fn document(&self, text: &str, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        if self.asked && !self.is_table() {
            return self.json(&value());
        }
        self.raw_data(text)?;
        // The shell's next prompt belongs on a line of its own.
        let ends = text.is_empty() || text.ends_with('\n') || !self.streams.stdout_is_terminal;
        if ends { Ok(()) } else { self.write("\n") }
    }

    /// A piece of a result that has a format of its own.
    pub fn raw(&self, text: &str) -> Result<(), Failure> {
        self.write(text)
    }

    /// As [`raw`](Self::raw), for what others have written: as it is, except
    /// that it cannot tell a terminal what to do.
    pub fn raw_data(&self, text: &str) -> Result<(), Failure> {
        if self.streams.stdout_is_terminal {
            self.write(&text::printable_document(text))
        } else {
            self.write(text)
        }
    }

    /// A status word, in the colour of what it means.
    pub fn status(&self, word: &str) -> String {
        match table::status_color(word).filter(|_| self.stdout_color) {
            Some(color) => color.colorize(word),
            None => word.to_owned(),
        }
    }

    /// Whether a format was asked for, and is not the default.
    pub fn was_asked(&self) -> bool {
        self.asked
    }

    /// One line of JSON, whatever the format: what other programs wait for.
    #[cfg(feature = "sandbox")]
    pub fn ready(&self, value: &Value) -> Result<(), Failure> {
        self.write(&format!("{value}\n"))
    }

    /// A value without a view of its own.
    pub fn value(&self, value: &Value) -> Result<(), Failure> {
        if self.is_table() {
            return self.write(&text::json_safe(&format!("{value:#}\n")));
        }
        self.json(value)
    }

    /// Something that is not an error, on standard error; switched off by `--quiet`
    /// and where programs read.
    pub fn note(&self, note: &str) {
        if !self.quiet && self.is_table() {
            self.complain(&format!("{}\n", printable(note)));
        }
    }

    /// What to do next.
    pub fn hint(&self, hint: &str) {
        if !self.quiet && self.is_table() {
            let (dim, reset) = self.styles("\u{1b}[2m");
            self.complain(&format!("{dim}{}{reset}\n", printable(hint)));
        }
    }

    /// A safety notice.
    pub fn warning(&self, warning: &str) {
        if !self.is_table() {
            return;
        }
        let (yellow, reset) = self.styles("\u{1b}[33m");
        self.complain(&format!("{yellow}warning:{reset} {}\n", printable(warning)));
    }

    /// A line of `--verbose`.
    pub fn trace(&self, line: &str) {
        if let Some(tracer) = self.tracer() {
            tracer.trace(line);
        }
    }

    /// What writes the lines of `--verbose`, for those who cannot hold a printer.
    pub fn tracer(&self) -> Option<Tracer> {
        self.verbose.then_some(Tracer { color: self.stderr_color })
    }

    /// Sends the local server's log to standard error.
    #[cfg(feature = "sandbox")]
    pub fn show_log(&self) {
        use tracing_subscriber::filter::LevelFilter;
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (_, true) => LevelFilter::DEBUG,
            _ => LevelFilter::INFO,
        };
        // Somebody who set a logger up before us wants that one.
        let _ = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(self.stderr_color)
            .with_writer(std::io::stderr)
            .try_init();
    }

    /// Asks a question; the answer is what was typed, `None` where nobody typed
    /// anything, not even Enter.
    pub async fn ask(&self, question: &str) -> Result<Option<String>, Failure> {
        prompt::visible(|| self.complain(&printable(question))).await
    }

    /// Asks for something that must not be seen.
    pub async fn ask_hidden(&self, question: &str) -> Result<String, Failure> {
        prompt::hidden(|| self.complain(&printable(question))).await
    }

    /// Shows on a terminal that something is going on, if it takes longer than
    /// half a second; ends when the guard is dropped.
    pub fn progress(&self, what: impl Into<String>) -> spinner::Spinner {
        let moves = self.streams.stderr_is_terminal && !self.streams.dumb;
        let shown = moves && !self.quiet && !self.verbose;
        spinner::Spinner::start(shown, what.into(), |frame| raw_stderr(frame.as_bytes()))
    }

    /// The failure: at most five lines for people, one JSON object for programs.
    pub fn failure(&self, failure: &Failure) {
        if failure.kind() == Kind::BrokenPipe {
            return;
        }
        if !self.is_table() {
            self.complain(&format!("{}\n", text::json_safe(&failure.to_json().to_string())));
            return;
        }
        if failure.kind() == Kind::Interrupted && self.streams.stderr_is_terminal {
            self.leave_line();
        }
        let details = failure.details();
        let message = one_line(&details.message);
        let (red, reset) = self.styles("\u{1b}[1;31m");
        // Who pressed Ctrl-C and leaves nothing behind made no error.
        let wanted = failure.kind() == Kind::Interrupted && details.hint.is_none();
        let mut lines = match wanted {
            true => vec![message.into_owned()],
            false => vec![format!("{red}error:{reset} {message}")],
        };
        // One field's problem is mostly in the message already.
        let said = |(field, message): &&(String, String)| {
            !details.message.ends_with(&format!("{field}: {message}"))
        };
        for (field, message) in details.fields.iter().filter(said).take(2) {
            lines.push(format!("  {}: {}", one_line(field), one_line(message)));
        }
        if details.fields.len() > 2 {
            let last = lines.len() - 1;
            lines[last].push_str(&format!("; and {} more", details.fields.len() - 2));
        }
        if let Some(hint) = &details.hint {
            let room = 5 - lines.len() - usize::from(details.request_id.is_some());
            lines.extend(hint.lines().take(room).map(|line| format!("  {}", one_line(line))));
        }
        if let Some(id) = &details.request_id {
            let (dim, reset) = self.styles("\u{1b}[2m");
            lines.push(format!("  {dim}request id: {}{reset}", one_line(id)));
        }
        self.complain(&format!("{}\n", lines.join("\n")));
    }

    /// The terminal has shown Ctrl-C as `^C`; what follows has a line of its own.
    fn leave_line(&self) {
        if prompt::is_open() {
            return;
        }
        raw_stderr(if self.streams.dumb { b"\n" } else { spinner::CLEAR_LINE.as_bytes() });
    }

    /// What clap has to say: help and version to standard output, mistakes to
    /// standard error.
    pub fn clap(&self, error: &clap::Error) -> Result<(), Failure> {
        let rendered = error.render();
        let color = if error.use_stderr() { self.stderr_color } else { self.stdout_color };
        let text = if color { rendered.ansi().to_string() } else { rendered.to_string() };
        if error.use_stderr() {
            self.complain(&text);
            return Ok(());
        }
        self.write(&text)
    }

    fn json(&self, value: &Value) -> Result<(), Failure> {
        let Some(filter) = &self.filter else {
            return self.write(&self.rendered(value));
        };
        let mut text = String::new();
        for result in filter.run(value)? {
            match &result {
                // As `jq -r` does: an id goes into a variable without quotes.
                Value::String(string) if self.format != Format::Yaml => {
                    if self.streams.stdout_is_terminal {
                        text.push_str(&printable(string));
                    } else {
                        text.push_str(string);
                    }
                    text.push('\n');
                }
                _ => text.push_str(&self.rendered(&result)),
            }
        }
        self.write(&text)
    }

    fn rendered(&self, value: &Value) -> String {
        let text = match self.format {
            Format::Yaml => yaml::to_yaml(value),
            Format::Ndjson => format!("{value}\n"),
            Format::Json | Format::Table => format!("{value:#}\n"),
        };
        text::json_safe(&text).into_owned()
    }

    fn canvas(&self) -> Canvas {
        let width = self
            .streams
            .stdout_is_terminal
            .then(terminal_size::terminal_size)
            .flatten()
            .map(|(width, _)| usize::from(width.0));
        Canvas { width, color: self.stdout_color }
    }

    fn styles(&self, style: &'static str) -> (&'static str, &'static str) {
        if self.stderr_color { (style, "\u{1b}[0m") } else { ("", "") }
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => error.into(),
            _ => Failure::other(format!("standard output: {error}")).code(UNWRITTEN),
        })
    }

    fn complain(&self, text: &str) {
        complain(text);
    }
}

/// Writes the lines of `--verbose`.
#[derive(Clone, Copy, Debug)]
pub struct Tracer {
    color: bool,
}

impl Tracer {
    pub fn trace(self, line: &str) {
        let (dim, reset) = if self.color { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        complain(&format!("{dim}{}{reset}\n", one_line(line)));
    }
}

fn stderr_width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(80, |(width, _)| usize::from(width.0))
}

/// Everything that goes to standard error, but frames of the spinner.
fn complain(text: &str) {
    spinner::clear(|frame| raw_stderr(frame.as_bytes()));
    if prompt::stands_open() {
        raw_stderr(b"\n");
    }
    raw_stderr(text.as_bytes());
}

/// Standard error that nobody reads any more is no reason to fail.
fn raw_stderr(bytes: &[u8]) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}
