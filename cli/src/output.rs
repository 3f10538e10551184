//! Output: results go to standard output, everything else to standard error. No other module
//! prints.

mod csv;
mod format;
mod jq;
mod prompt;
mod spinner;
mod streams;
mod table;
mod text;

use clap::ColorChoice;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub use csv::{Items, ListWriter};
pub use format::Format;
pub(crate) use jq::Filter;
pub(crate) use streams::Stdin;
pub use streams::Streams;
pub use table::{Column, View};
pub(crate) use table::{between_words, timestamp};
pub(crate) use text::{json_safe, one_line, printable};

use crate::failure::{Failure, Kind};
use crate::settings::key::masked;
use crate::stop;
use crate::zone::Zone;
use table::Canvas;

/// A response as the JSON that the service sent.
///
/// # Errors
///
/// If the value cannot be JSON, as a path that is not UTF-8.
pub fn to_value(response: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(response)
        .map_err(|error| Failure::other(format!("the result cannot be written as JSON: {error}")))
}

fn to_values(items: &[impl Serialize]) -> Result<Vec<Value>, Failure> {
    items.iter().map(to_value).collect()
}

/// The fields of a response beside those that the output of the command has itself.
pub fn fields_beside(own: &[&str], response: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = to_value(response) else {
        return Map::new();
    };
    fields.retain(|name, _| !own.contains(&name.as_str()));
    fields
}

/// How many bytes of the results of `--jq` are collected before they are written.
const MAX_BUFFERED: usize = 64 << 10;

/// The error code of a failure to write to standard output.
pub const OUTPUT_FAILED: &str = "output_failed";

/// How results, hints and errors are shown.
#[derive(Default)]
pub(crate) struct Look {
    /// The format that an option, the environment or the profile selects.
    pub(crate) format: Option<Format>,
    /// Whether it is an option that selects the format.
    pub(crate) is_asked: bool,
    pub(crate) filter: Option<Filter>,
    pub(crate) color: ColorChoice,
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
    /// Whether to ignore the width of the terminal.
    pub(crate) wide: bool,
    /// Whether no cell of CSV may be a formula.
    pub(crate) safe_cells: bool,
    /// The zone of shown times.
    pub(crate) zone: Zone,
}

/// Writes results, hints and errors in the selected format.
pub struct Printer {
    look: Look,
    format: Format,
    streams: Streams,
    stdout_color: bool,
    stderr_color: bool,
    /// Whether Ctrl-C ends a prompt.
    signals: bool,
}

impl Printer {
    /// Creates a printer.
    pub(crate) fn new(look: Look, streams: Streams, signals: bool) -> Self {
        let terminals = streams.terminals();
        let color = |is_terminal: bool| match look.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !streams.is_dumb(),
        };

        let stdout_color = color(terminals.stdout);
        let stderr_color = color(terminals.stderr);
        let is_table = terminals.stdout && look.filter.is_none();
        let default = if is_table {
            Format::Table
        } else {
            Format::Json
        };
        let format = look.format.unwrap_or(default);
        Self {
            look,
            format,
            streams,
            stdout_color,
            stderr_color,
            signals,
        }
    }

    /// An RFC 3339 time in the zone of the run, with its offset. Other text is returned unchanged.
    pub fn local_time(&self, text: &str) -> String {
        table::local_time(text, self.look.zone)
    }

    /// The standard streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The format of results.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether results are formatted for people.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Whether svc can prompt: standard input and standard error are terminals.
    pub fn can_ask(&self) -> bool {
        self.stdin_is_terminal() && self.streams.terminals().stderr
    }

    /// Whether standard input is a terminal, so that reading it waits for a person to type.
    pub fn stdin_is_terminal(&self) -> bool {
        self.streams.terminals().stdin
    }

    /// Whether standard output is a terminal, so that a person sees the result.
    pub fn stdout_is_terminal(&self) -> bool {
        self.streams.terminals().stdout
    }

    /// Writes one object.
    pub fn one(&self, item: &impl Serialize, view: View) -> Result<(), Failure> {
        let value = to_value(item)?;
        if self.is_table() && value.is_object() {
            return unless_closed(self.raw(&table::single(&value, view, self.canvas())));
        }
        unless_closed(self.plain(&value))
    }

    /// Writes an item of a long result. A closed pipe is reported, so that the rest is not read.
    pub fn part(&self, item: &impl Serialize) -> Result<(), Failure> {
        self.plain(&to_value(item)?)
    }

    /// Writes one object, as a table of `rows` for people, and in CSV.
    pub fn one_as_list(
        &self,
        item: &impl Serialize,
        rows: &[impl Serialize],
        view: View,
    ) -> Result<(), Failure> {
        unless_closed(match self.format {
            Format::Table => self.rows(rows, view),
            Format::Csv if !self.has_filter() => self.json(&to_value(&rows)?),
            _ => self.json(&to_value(item)?),
        })
    }

    /// Writes a list. People see the note `none` if it is empty.
    pub fn list(&self, items: &[impl Serialize], view: View, none: &str) -> Result<(), Failure> {
        unless_closed(match self.format {
            Format::Table if items.is_empty() => {
                self.note(none);
                Ok(())
            }
            Format::Table => self.rows(items, view),
            Format::Ndjson => to_values(items)?
                .iter()
                .try_for_each(|item| self.json(item)),
            _ => self.json(&to_value(&items)?),
        })
    }

    /// Prints the part of a list that could be read. In lines and in CSV, nothing but the failure of the
    /// run says that it is one.
    pub fn part_of_list(&self, items: &[impl Serialize], view: View) -> Result<(), Failure> {
        let is_one_document = match self.format {
            Format::Json => true,
            Format::Csv => self.has_filter(),
            _ => false,
        };
        if is_one_document {
            self.value(&json!({"items": to_values(items)?, "complete": false}))
        } else {
            self.list(items, view, "none could be read")
        }
    }

    fn rows(&self, items: &[impl Serialize], view: View) -> Result<(), Failure> {
        let items = to_values(items)?;
        let list = table::list(&items, view.0, self.canvas());
        self.raw(&list.text)?;
        let columns = match list.hidden {
            0 => None,
            1 => Some("1 column is not shown".to_owned()),
            count => Some(format!("{count} columns are not shown")),
        };
        let ids = list.has_short_ids.then(|| "IDs are shortened".to_owned());
        let left_out = columns.into_iter().chain(ids).collect::<Vec<_>>();
        if !left_out.is_empty() {
            self.hint(&format!("{}; use --wide or --json", left_out.join(", ")));
        }
        Ok(())
    }

    /// Writes the result of an action: a sentence for people, the value for programs. It is one line,
    /// whatever a service or a person has put into it.
    pub fn done(&self, sentence: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.lines_or_value(&one_line(sentence), value)
    }

    /// Writes a text of several lines for people, the value for programs.
    pub fn lines_or_value(&self, text: &str, value: &impl Serialize) -> Result<(), Failure> {
        unless_closed(if self.is_table() {
            self.raw(&format!("{}\n", printable(text)))
        } else {
            self.json(&to_value(value)?)
        })
    }

    /// Writes an event of a running command: a line of text for people, a line of JSON for
    /// programs.
    pub fn event(&self, line: &str, value: &impl Serialize) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                let line = wrapped(&one_line(line), self.streams.stdout_width());
                self.raw(&format!("{line}\n"))
            }
            Format::Json if self.look.filter.is_none() => {
                self.raw(&json_safe(&format!("{}\n", to_value(value)?)))
            }
            _ => self.json(&to_value(value)?),
        }
    }

    /// Like [`event`](Self::event), with a status between two texts, in the color of its meaning.
    pub fn status_event(
        &self,
        before: &str,
        status: &str,
        after: &str,
        value: &impl Serialize,
    ) -> Result<(), Failure> {
        if !self.is_table() {
            return self.event(before, value);
        }

        let before = one_line(before);
        let after = one_line(after);
        let line = format!("{before}{status}{after}");
        // Wrapped, it has line ends in place of some spaces: the status stays where it is.
        let mut line = wrapped(&line, self.streams.stdout_width());
        if let Some(color) = table::status_color(status).filter(|_| self.stdout_color) {
            let place = before.len()..before.len() + status.len();
            line.replace_range(place, &color.colorize(status));
        }
        self.raw(&format!("{line}\n"))
    }

    /// Writes a text that is the result itself, such as a script or a stored message, as
    /// [`raw_data`](Self::raw_data) does. If an option asks for JSON or CSV, it gets `value`.
    pub fn document(&self, text: &str, value: &impl Serialize) -> Result<(), Failure> {
        if self.is_for_programs() {
            return self.json(&to_value(value)?);
        }
        self.raw_data(text)?;
        // On a terminal, end the line so that the shell's prompt starts a new one.
        let ends = text.is_empty() || text.ends_with('\n') || !self.stdout_is_terminal();
        if ends { Ok(()) } else { self.raw("\n") }
    }

    /// Like [`raw`](Self::raw), for untrusted text: on a terminal, control characters are escaped.
    pub fn raw_data(&self, text: &str) -> Result<(), Failure> {
        if self.stdout_is_terminal() {
            self.raw(&text::printable_document(text))
        } else {
            self.raw(text)
        }
    }

    /// Whether `--jq` filters the JSON.
    pub fn has_filter(&self) -> bool {
        self.look.filter.is_some()
    }

    /// Whether an option selected the format. Scripts, help and other texts ignore a format that the
    /// profile or the environment sets.
    pub fn has_explicit_format(&self) -> bool {
        self.look.is_asked || self.has_filter()
    }

    /// Whether an option selected a format for programs.
    pub fn is_for_programs(&self) -> bool {
        self.has_explicit_format() && !self.is_table()
    }

    /// Writes one line of JSON in every format, for programs that wait until a server is ready.
    pub fn ready(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.raw(&format!("{}\n", to_value(value)?))
    }

    /// Writes a value without a view.
    pub fn value(&self, value: &impl Serialize) -> Result<(), Failure> {
        unless_closed(self.plain(&to_value(value)?))
    }

    fn plain(&self, value: &Value) -> Result<(), Failure> {
        if self.is_table() {
            return self.raw(&json_safe(&format!("{value:#}\n")));
        }
        self.json(value)
    }

    /// Writes a notice to standard error, unless `--quiet` is given. With a format for programs it
    /// is marked as a note, because an error object may follow it.
    pub fn note(&self, note: &str) {
        if self.look.quiet {
            return;
        }
        if self.is_table() {
            self.aside("", note, "");
        } else {
            self.aside("note: ", note, "");
        }
    }

    /// Writes a note or a hint: one line, whatever a service has put into it.
    fn aside(&self, start: &str, text: &str, end: &str) {
        let text = wrapped(&one_line(text), self.stderr_width());
        self.streams.write_stderr(&format!("{start}{text}{end}\n"));
    }

    /// The width of standard error, if it is a terminal.
    fn stderr_width(&self) -> Option<usize> {
        let is_terminal = self.streams.terminals().stderr;
        is_terminal.then(|| self.streams.stderr_width())
    }

    /// Writes a hint for people, unless `--quiet` is given or the format is for programs.
    pub fn hint(&self, hint: &str) {
        if !self.look.quiet && self.is_table() {
            let (dim, reset) = styles(self.stderr_color, DIM);
            self.aside(dim, hint, reset);
        }
    }

    /// Writes a warning to standard error, in every format and even with `--quiet`.
    pub fn warning(&self, warning: &str) {
        let (yellow, reset) = styles(self.stderr_color, "\u{1b}[33m");
        let text = format!("warning: {}", one_line(warning));
        let text = wrapped(&text, self.stderr_width());
        let text = text.replacen("warning:", &format!("{yellow}warning:{reset}"), 1);
        self.streams.write_stderr(&format!("{text}\n"));
    }

    /// From now on, `shown` is written to standard error in place of a secret.
    pub fn hide(&self, secret: &str, shown: &str) {
        self.streams.hide(secret, shown);
    }

    /// Writes a line of `--verbose`.
    pub fn trace(&self, line: &str) {
        if let Some(tracer) = self.tracer() {
            tracer.trace(line);
        }
    }

    /// A handle that writes lines of `--verbose`, for callbacks. `None` without `--verbose`.
    pub fn tracer(&self) -> Option<Tracer> {
        (self.look.verbose > 0).then(|| Tracer {
            streams: self.streams.clone(),
            color: self.stderr_color,
            shows_bodies: self.look.verbose > 1,
        })
    }

    /// Sends the sandbox's log to standard error, if this run is the whole process: the log of a process
    /// has one destination. `RUST_LOG` selects what is logged.
    pub fn show_log(&self, as_json: bool) {
        use tracing_subscriber::EnvFilter;
        use tracing_subscriber::filter::LevelFilter;

        if !self.signals {
            return;
        }

        let level = match (self.look.quiet, self.look.verbose) {
            (true, _) => LevelFilter::ERROR,
            (_, 1..) => LevelFilter::DEBUG,
            _ => LevelFilter::INFO,
        };
        let filter = EnvFilter::builder()
            .with_default_directive(level.into())
            .from_env_lossy();
        let streams = self.streams.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(self.stderr_color && !as_json)
            .with_writer(move || LogWriter(streams.clone()));
        // Keep a subscriber that the process has set already.
        let _ = if as_json {
            log.json().flatten_event(true).try_init()
        } else {
            log.try_init()
        };
    }

    /// A function that prints a line for people to standard error, in the order of the calls. It
    /// does not wait until the line is printed. `None` unless standard error is a terminal, or with
    /// `--quiet`.
    pub fn lines(&self) -> Option<impl Fn(String) + Send + Sync + 'static> {
        /// Further lines are lost, if the terminal does not take them.
        const MAX_WAITING: usize = 1000;

        if self.look.quiet || !self.is_table() || !self.streams.terminals().stderr {
            return None;
        }

        let (sender, receiver) = std::sync::mpsc::sync_channel::<String>(MAX_WAITING);
        let streams = self.streams.clone();
        std::thread::spawn(move || {
            for line in receiver {
                streams.write_stderr(&format!("{}\n", one_line(&line)));
            }
        });
        Some(move |line| drop(sender.try_send(line)))
    }

    /// Shows a spinner on a terminal after half a second, until the guard is dropped.
    pub fn progress(&self, what: impl Into<String>) -> spinner::Spinner {
        let animates = self.streams.terminals().stderr && !self.streams.is_dumb();
        let shown = animates && !self.look.quiet && self.look.verbose == 0;
        spinner::Spinner::start(shown, what.into(), &self.streams)
    }

    /// Writes a failure: at most five lines for people, one JSON object for programs.
    pub fn failure(&self, failure: &Failure) {
        if matches!(failure.kind(), Kind::BrokenPipe | Kind::Shown) {
            return;
        }
        if !self.is_table() {
            let object = failure.to_json().to_string();
            self.streams
                .write_stderr(&format!("{}\n", masked(&json_safe(&object))));
            return;
        }

        if failure.kind() == Kind::Interrupted && self.streams.terminals().stderr {
            // After a prompt, or the `^C` that the terminal has echoed.
            self.streams.write_stderr("\n");
        }
        let status = failure.status.map(|status| status.to_string());
        let status = status.filter(|status| !failure.message.contains(status));
        let status = status
            .map(|status| format!(" (HTTP {status})"))
            .unwrap_or_default();
        let message = format!("{}{status}", one_line(&failure.message));
        let (red, reset) = styles(self.stderr_color, "\u{1b}[1;31m");
        // Ctrl-C without consequences is not an error.
        let harmless_interrupt = failure.kind() == Kind::Interrupted && failure.hint.is_none();
        let mut lines = if harmless_interrupt {
            vec![message]
        } else {
            vec![format!("error: {message}")]
        };
        // The message often already ends with the only field's problem.
        let not_in_message = |(field, message): &&(String, String)| {
            !failure.message.ends_with(&format!("{field}: {message}"))
        };
        for (field, message) in failure.fields.iter().filter(not_in_message).take(2) {
            lines.push(format!("  {}: {}", one_line(field), one_line(message)));
        }

        if failure.fields.len() > 2 {
            let last = lines.len() - 1;
            lines[last].push_str(&format!("; and {} more", failure.fields.len() - 2));
        }
        if let Some(hint) = &failure.hint {
            let available = 5 - lines.len() - usize::from(failure.request_id.is_some());
            lines.extend(
                hint.lines()
                    .take(available)
                    .map(|line| format!("  {}", one_line(line))),
            );
        }

        let mut text = String::new();
        for line in &lines {
            text.push_str(&wrapped(line, self.stderr_width()));
            text.push('\n');
        }

        let text = if harmless_interrupt {
            text
        } else {
            text.replacen("error:", &format!("{red}error:{reset}"), 1)
        };
        let (dim, reset) = styles(self.stderr_color, DIM);
        let id = failure.request_id.as_deref().map(one_line);
        let id = id.map(|id| format!("  {dim}request id: {id}{reset}\n"));
        let text = text + &id.unwrap_or_default();
        self.streams.write_stderr(&masked(&text));
    }

    /// Writes clap's output: help and version to standard output, errors to standard error.
    pub fn clap(&self, error: &clap::Error) -> Result<(), Failure> {
        let rendered = error.render();
        let color = if error.use_stderr() {
            self.stderr_color
        } else {
            self.stdout_color
        };
        let text = if color {
            rendered.ansi().to_string()
        } else {
            rendered.to_string()
        };
        if error.use_stderr() {
            self.streams.write_stderr(&text);
            return Ok(());
        }

        self.raw(&text)
    }

    fn json(&self, value: &Value) -> Result<(), Failure> {
        let Some(filter) = &self.look.filter else {
            return self.raw(&self.rendered(value));
        };

        let interrupted = stop::watch(self.signals);
        let mut text = String::new();
        let mut objects = Vec::new();
        filter.run(value, |result| {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Failure::new(Kind::Interrupted, "interrupted"));
            }
            match &result {
                // One header is for all of them.
                Value::Object(_) if self.format == Format::Csv => {
                    objects.push(result);
                    return Ok(());
                }
                // As `jq -r` does, so that a shell variable gets an id without quotes.
                Value::String(string) if self.stdout_is_terminal() => {
                    text.push_str(&printable(string));
                    text.push('\n');
                }
                Value::String(string) => {
                    text.push_str(string);
                    text.push('\n');
                }
                _ => text.push_str(&self.rendered(&result)),
            }
            if text.len() < MAX_BUFFERED {
                return Ok(());
            }
            self.raw(&std::mem::take(&mut text))
        })?;
        if !objects.is_empty() {
            text.push_str(&self.rendered(&Value::Array(objects)));
        }
        self.raw(&text)
    }

    fn rendered(&self, value: &Value) -> String {
        let text = match self.format {
            Format::Csv => csv::to_csv(value, self.look.safe_cells),
            Format::Ndjson => format!("{value}\n"),
            _ => format!("{value:#}\n"),
        };
        match self.format {
            Format::Csv if self.stdout_is_terminal() => text::printable_document(&text).into(),
            Format::Csv => text,
            _ => json_safe(&text).into_owned(),
        }
    }

    fn canvas(&self) -> Canvas {
        let width = self.streams.stdout_width().filter(|_| !self.look.wide);
        Canvas {
            width,
            color: self.stdout_color,
            zone: self.look.zone,
        }
    }

    /// Writes part of a result that has its own format, unchanged.
    pub fn raw(&self, text: &str) -> Result<(), Failure> {
        self.streams
            .write_stdout(text)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::BrokenPipe => error.into(),
                _ => Failure::other(format!("standard output: {error}")).code(OUTPUT_FAILED),
            })
    }
}

/// Writes the sandbox's log to standard error of the run: a run within another process, as in tests,
/// has a standard error of its own.
struct LogWriter(Streams);

impl std::io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.write_stderr(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A reader such as `head` has read what it wanted. The command goes on, and its exit code says
/// whether a check or a part of its work failed.
pub fn unless_closed(written: Result<(), Failure>) -> Result<(), Failure> {
    written.or_else(|failure| match failure.kind() {
        Kind::BrokenPipe => Ok(()),
        _ => Err(failure),
    })
}

/// A line for people, in lines that fit their terminal. One with a command stays whole, so that it can be
/// copied.
fn wrapped(line: &str, width: Option<usize>) -> String {
    match width.filter(|_| !line.contains("svc ")) {
        Some(width) => between_words(line, width),
        None => line.to_owned(),
    }
}

const DIM: &str = "\u{1b}[2m";

/// The escape sequences that begin and end a text in a style.
fn styles(color: bool, style: &'static str) -> (&'static str, &'static str) {
    if color {
        (style, "\u{1b}[0m")
    } else {
        ("", "")
    }
}

/// Writes lines of `--verbose`.
#[derive(Clone)]
pub struct Tracer {
    streams: Streams,
    color: bool,
    /// Whether headers and bodies are written, too (`-vv`).
    pub shows_bodies: bool,
}

impl Tracer {
    /// The text without the secrets of this run, before a part of it is cut off.
    pub fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.streams.without_secrets(text)
    }

    pub fn trace(&self, line: &str) {
        let (dim, reset) = styles(self.color, DIM);
        self.streams
            .write_stderr(&format!("{dim}{}{reset}\n", one_line(line)));
    }
}
