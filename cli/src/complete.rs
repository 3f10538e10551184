//! Shell completion. The scripts of `svc completions` run `SVC_COMPLETE=SHELL svc -- WORDS`.
//!
//! Prints only candidates: no errors, no prompts. A service is queried only if a base URL and a
//! stored key are configured, and only for a limited time.

mod bash;
mod service;
mod shells;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use svc_sdk::{Operation, Scope};

use crate::COMMANDS;
use crate::command_spec;
use crate::context::Context;
use crate::events::EVENTS;
use crate::input::duration;
use crate::output::{Format, Printer, Streams, one_line};
use crate::recorded::Records;
use crate::sent::SentEmails;
use crate::settings::{Env, GlobalFlags, Settings};

pub use shells::{Shell, script};

/// The environment variable that requests candidates and names the shell.
pub const VARIABLE: &str = "SVC_COMPLETE";
/// The environment variable with the time limit for a service.
const TIMEOUT: &str = "SVC_COMPLETE_TIMEOUT";
/// The default time limit. The user waits at the prompt.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The kind of values that an argument is completed with.
#[cfg_attr(
    not(feature = "sandbox"),
    expect(dead_code, reason = "some are of commands of the local server only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Ids from the service.
    Audience,
    Contact,
    Webhook,
    ExtractionWebhook,
    /// A domain's id or name.
    DomainOrName,
    DomainName,
    /// Emails sent from this machine. The service has no list of emails.
    Email,
    /// Deliveries that `svc listen` recorded.
    Record,
    /// Jobs of `svc bulk` on this machine.
    Job,
    /// Ids from the local server.
    SandboxKey,
    SandboxEmail,
    SandboxRequest,
    Template,
    Message,
    Delivery,
    Fault,
    Profile,
    EmailEvent,
    ExtractionEvent,
    Event,
    /// An event followed by `=`.
    Route,
    Scope,
    Operation,
    /// The words of a command path.
    Command,
    Method,
    /// The documented paths.
    Path,
}

impl Values {
    /// The completer, for clap's `add`.
    pub fn candidates(self) -> ArgValueCandidates {
        ArgValueCandidates::new(move || {
            REQUEST.with_borrow(|request| {
                let found = request.as_ref().map(|request| self.find(request)).unwrap_or_default();
                found.into_iter().filter_map(|(value, about)| candidate(&value, &about)).collect()
            })
        })
    }

    fn find(self, request: &Request) -> Vec<Found> {
        match self {
            Self::EmailEvent => plain(EVENTS.into_iter().filter(|e| e.starts_with("email."))),
            Self::ExtractionEvent => {
                plain(EVENTS.into_iter().filter(|e| e.starts_with("extraction.")))
            }
            Self::Event => plain(EVENTS),
            Self::Route => plain(EVENTS.iter().map(|event| format!("{event}="))),
            Self::Scope => plain(Scope::ALL.iter().map(|scope| scope.as_str())),
            Self::Operation => plain(Operation::ALL.iter().map(|operation| operation.name())),
            Self::Method => plain(["GET", "POST", "PUT", "PATCH", "DELETE"]),
            Self::Path => Operation::ALL
                .iter()
                .map(|operation| (operation.path().to_owned(), operation.name().to_owned()))
                .collect(),
            Self::Command => request.next_words_of_a_command(),
            Self::Profile => request.profiles(),
            Self::Record => request.records(),
            Self::Job => request.jobs(),
            Self::Email => request
                .context()
                .map(|c| SentEmails::of(&c.settings).newest(&c.out))
                .unwrap_or_default(),
            values => {
                let fetch = |context| service::fetch(&context, values, request.timeout());
                request.context().map(fetch).unwrap_or_default()
            }
        }
    }
}

fn plain<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<Found> {
    values.into_iter().map(|value| (value.into(), String::new())).collect()
}

/// Completes `@FILE` for an option that takes text or a file.
pub fn at_file() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let path = current.to_str().and_then(|text| text.strip_prefix('@'));
        let here = REQUEST.with_borrow(|request| Some(request.as_ref()?.env.cwd.clone()));
        let files = PathCompleter::any().current_dir(here.unwrap_or_default());
        let found = path.map(|path| files.complete(OsStr::new(path)));
        let found = found.unwrap_or_default().into_iter();
        found.map(|candidate| candidate.add_prefix("@")).collect::<Vec<_>>()
    })
}

/// Completes the domain of a sender with those of the account.
pub fn sender() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some((name, _)) = current.to_str().and_then(|text| text.split_once('@')) else {
            return Vec::new();
        };
        let domains = REQUEST.with_borrow(|request| {
            request.as_ref().map(|request| Values::DomainName.find(request)).unwrap_or_default()
        });
        let senders =
            domains.into_iter().map(|(domain, about)| (format!("{name}@{domain}"), about));
        let typed = current.to_string_lossy().into_owned();
        let senders = senders.filter(|(sender, _)| sender.starts_with(&typed));
        senders.filter_map(|(sender, about)| candidate(&sender, &about)).collect()
    })
}

/// Prints the candidates for the words after `--`.
pub fn run(shell: &str, args: &[OsString], env: &Env, streams: &Streams) {
    let Some(start) = args.iter().position(|arg| arg == "--") else { return };
    let words = args[start + 1..].to_vec();
    let Some(shell) = Shell::named(shell).filter(|_| !words.is_empty()) else { return };
    let current = shell.index(env).unwrap_or(words.len() - 1);
    let mut others = words.clone();
    if current < others.len() {
        others.remove(current);
    }
    let others = others.into_iter().filter_map(|word| word.into_string().ok()).collect();
    let before = current;
    REQUEST.set(Some(Request {
        words: others,
        before,
        env: env.clone(),
        streams: streams.clone(),
    }));
    if let Ok(text) = shell.complete(&mut crate::command(), words, env, Some(&env.cwd)) {
        let _ = silent(streams.clone(), env).raw(&text);
    }
}

/// A value and its description.
type Found = (String, String);

thread_local! {
    /// The command line being completed. clap passes only the current word to a completer.
    static REQUEST: RefCell<Option<Request>> = const { RefCell::new(None) };
}

struct Request {
    /// All words except the one being completed.
    words: Vec<String>,
    /// The number of words before it.
    before: usize,
    env: Env,
    streams: Streams,
}

impl Request {
    fn settings(&self) -> Option<Settings> {
        Settings::resolve(&self.flags(), &self.env).ok()
    }

    fn context(&self) -> Option<Context> {
        Some(Context::new(
            self.settings()?,
            silent(self.streams.clone(), &self.env),
            &command_spec::UNKNOWN,
            &[],
        ))
    }

    fn timeout(&self) -> Duration {
        self.env.get(TIMEOUT).and_then(|text| duration::parse(text).ok()).unwrap_or(DEFAULT_TIMEOUT)
    }

    /// The global options that select the service.
    fn flags(&self) -> GlobalFlags {
        let mut flags = GlobalFlags::default();
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value = || value.clone().or_else(|| words.next().cloned());
            match name {
                "--" => break,
                "--sandbox" => flags.sandbox = true,
                "--profile" => flags.profile = value(),
                "--email-url" => flags.email_url = value(),
                "--extraction-url" => flags.extraction_url = value(),
                "--key-file" => flags.key_file = value().map(PathBuf::from),
                "--env-file" => flags.env_file = value().map(Into::into),
                "--ca-bundle" => flags.ca_bundle = value().map(Into::into),
                _ => {}
            }
        }
        flags
    }

    fn profiles(&self) -> Vec<Found> {
        // The profile name is incomplete while it is being typed.
        let flags = GlobalFlags { profile: None, sandbox: false, ..self.flags() };
        let Ok(settings) = Settings::resolve(&flags, &self.env) else { return Vec::new() };
        let Ok(profiles) = settings.profiles() else { return Vec::new() };
        let url = |name: &str| profiles.text(name, "email_url");
        let names = profiles.names().into_iter();
        names.map(|name| (name.clone(), url(&name).unwrap_or_default())).collect()
    }

    fn jobs(&self) -> Vec<Found> {
        let Some(settings) = self.settings() else { return Vec::new() };
        let entries = std::fs::read_dir(settings.state_dir.join("bulk")).into_iter().flatten();
        // A job that is being prepared has no journal.
        let has_journal = |entry: &std::fs::DirEntry| entry.path().join("journal.ndjson").is_file();
        let jobs = entries.flatten().filter(has_journal);
        plain(jobs.map(|entry| entry.file_name().to_string_lossy().into_owned()))
    }

    fn records(&self) -> Vec<Found> {
        let Some(context) = self.context() else { return Vec::new() };
        let newest = Records::in_dir(&context.settings.data_dir).newest(SHOWN).unwrap_or_default();
        let about = |event: Option<String>, at: &str| {
            let at = context.out.local_time(at);
            format!("{} {at}", event.unwrap_or_default())
        };
        newest.into_iter().map(|r| (r.id, about(r.event, &r.received_at))).collect()
    }

    /// The words that can follow in the arguments of `schema` and `help`.
    fn next_words_of_a_command(&self) -> Vec<Found> {
        let before = &self.words[..self.before.min(self.words.len())];
        let start = before
            .iter()
            .position(|word| word == "schema" || word == "help")
            .map_or(0, |at| at + 1);
        let given = before[start..].iter().filter(|word| !word.starts_with('-'));
        let given = given.map(String::as_str).collect::<Vec<_>>();
        let mut found = Vec::<Found>::new();
        for spec in COMMANDS {
            let words = spec.path.split(' ').collect::<Vec<_>>();
            if let Some(rest) = words.strip_prefix(&given[..])
                && let Some(next) = rest.first()
                && !found.iter().any(|(known, _)| known == next)
            {
                found.push(((*next).to_owned(), String::new()));
            }
        }
        found
    }
}

/// Maximum number of candidates from a list of any length.
const SHOWN: usize = 50;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 60;

/// A candidate, unless its value is unsafe on a command line. Values come from services, so anything
/// that a shell would interpret is rejected, and control characters in descriptions are escaped.
fn candidate(value: &str, about: &str) -> Option<CompletionCandidate> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+={}".contains(c);
    if value.is_empty() || value.starts_with('-') || !value.chars().all(plain) {
        return None;
    }
    let about = one_line(about);
    let about = match about.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", &about[..end]),
        None => about.into_owned(),
    };
    let help = (!about.is_empty()).then(|| about.into());
    Some(CompletionCandidate::new(value).help(help))
}

/// A printer without progress and hints.
fn silent(streams: Streams, env: &Env) -> Printer {
    Printer::new(Some(Format::Json), None, streams, |_| false, true, false)
        .within(env.zone, env.signals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Terminals;

    #[test]
    fn rejects_values_that_a_shell_would_interpret() {
        for value in ["", "-rf", "a b", "$(reboot)", "`x`", "a;b", "a\nb", "a\u{1b}[2J", "a*", "'"]
        {
            assert!(candidate(value, "").is_none(), "{value:?}");
        }
        let found = candidate("aud_1", "News\u{1b}[2J\nletter").expect("a candidate");
        let help = found.get_help().expect("a description").to_string();
        assert_eq!(help, "News\\u{1b}[2J\\nletter");
    }

    #[test]
    fn finds_global_options_at_any_position() {
        let words = ["svc", "--profile=p", "emails", "--email-url", "http://x", "--", "--sandbox"];
        let request = Request {
            words: words.map(str::to_owned).to_vec(),
            before: words.len(),
            env: Env::default(),
            streams: Streams::new(
                Box::new(std::io::empty()),
                Box::new(std::io::sink()),
                Box::new(std::io::sink()),
                Terminals::default(),
                false,
            ),
        };
        let flags = request.flags();
        assert_eq!(flags.profile.as_deref(), Some("p"));
        assert_eq!(flags.email_url.as_deref(), Some("http://x"));
        assert!(!flags.sandbox);
    }
}
