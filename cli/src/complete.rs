//! Shell completion of values: ids, names and what the documentation lists. `CompleteEnv` completes
//! commands and options, and calls these functions in a process of its own.
//!
//! A service is queried only if a base URL and a stored key are configured, and only for a limited
//! time.

mod service;

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use svc_sdk::{Operation, Scope};

use crate::command_spec;
use crate::context::Context;
use crate::events;
use crate::input::duration;
use crate::output::{ColorChoice, Format, Look, Printer, Streams, one_line};
use crate::process::Process;
use crate::recorded::Records;
use crate::settings::{Env, GlobalFlags, Settings};

/// The environment variable that requests candidates and names the shell.
pub const VARIABLE: &str = "SVC_COMPLETE";
/// The environment variable with the time limit for a service.
const TIMEOUT: &str = "SVC_COMPLETE_TIMEOUT";
/// The default time limit. The user waits at the prompt.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The kind of values that an argument is completed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Ids and names from the service.
    Audience,
    Domain,
    /// Ids from the service.
    Contact,
    Webhook,
    ExtractionWebhook,
    DomainName,
    /// Those of the sandbox, with `--sandbox`. The service has no list of emails.
    Email,
    /// Deliveries that `svc listen` recorded.
    Record,
    /// Jobs of `svc bulk` on this machine.
    Job,
    /// Ids from the sandbox.
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
    /// The documented paths.
    Path,
}

impl Values {
    /// The completer, for clap's `add`.
    pub fn candidates(self) -> ArgValueCandidates {
        ArgValueCandidates::new(move || {
            let found = self.find().unwrap_or_default().into_iter();
            found.filter_map(|(value, about)| candidate(&value, &about)).collect()
        })
    }

    fn find(self) -> Option<Vec<Found>> {
        Some(match self {
            Self::EmailEvent => plain(events::names().filter(|e| e.starts_with("email."))),
            Self::ExtractionEvent => {
                plain(events::names().filter(|e| e.starts_with("extraction.")))
            }
            Self::Event => plain(events::names()),
            Self::Route => plain(events::names().map(|event| format!("{event}="))),
            Self::Scope => plain(Scope::ALL.iter().map(|scope| scope.as_str())),
            Self::Operation => plain(Operation::ALL.iter().map(|operation| operation.name())),
            Self::Path => Operation::ALL
                .iter()
                .map(|operation| (operation.path().to_owned(), operation.name().to_owned()))
                .collect(),
            Self::Profile => {
                // The profile name is incomplete while it is being typed.
                let profiles = settings(|flags| (flags.profile, flags.sandbox) = (None, false))?;
                let profiles = profiles.profiles().ok()?;
                let url =
                    |name: &str| profiles.text(name, "email_url").unwrap_or_default().to_owned();
                profiles.names().into_iter().map(|name| (name.clone(), url(&name))).collect()
            }
            Self::Record => {
                let context = context()?;
                let (all, _) = Records::in_dir(&context.settings.data_dir).all().ok()?;
                all.into_iter()
                    .rev()
                    .take(SHOWN)
                    .map(|it| (it.id, it.event.unwrap_or_default()))
                    .collect()
            }
            Self::Job => {
                let jobs = std::fs::read_dir(settings(|_| ())?.state_dir.join("bulk")).ok()?;
                // A job that is being prepared has no journal.
                let has_journal =
                    |entry: &std::fs::DirEntry| entry.path().join("journal.ndjson").is_file();
                let jobs = jobs.flatten().filter(has_journal);
                plain(jobs.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            }
            Self::Email if !settings(|_| ())?.sandbox => return None,
            Self::Email => return Self::SandboxEmail.find(),
            values => service::fetch(&context()?, values, timeout()),
        })
    }
}

fn plain<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<Found> {
    values.into_iter().map(|value| (value.into(), String::new())).collect()
}

/// Completes `@FILE` for an option that takes text or a file.
pub fn at_file() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let path = current.to_str().and_then(|text| text.strip_prefix('@'));
        let found = path.map(|path| PathCompleter::any().complete(OsStr::new(path)));
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
        let domains = Values::DomainName.find().unwrap_or_default();
        let senders =
            domains.into_iter().map(|(domain, about)| (format!("{name}@{domain}"), about));
        let typed = current.to_string_lossy().into_owned();
        let senders = senders.filter(|(sender, _)| sender.starts_with(&typed));
        senders.filter_map(|(sender, about)| candidate(&sender, &about)).collect()
    })
}

/// A value and its description.
type Found = (String, String);

/// The words of the command line that is completed. clap passes only the current one to a completer.
fn words() -> Vec<OsString> {
    std::env::args_os().skip_while(|arg| arg != "--").skip(1).collect()
}

fn settings(change: impl FnOnce(&mut GlobalFlags)) -> Option<Settings> {
    let mut flags = GlobalFlags::found_in(&words());
    change(&mut flags);
    Settings::resolve(&flags, &Env::of(&Process::current())).ok()
}

/// A context that prints nothing.
fn context() -> Option<Context> {
    let Process { stdin, stdout, stderr, terminals, zone, .. } = Process::current();
    let streams = Streams::new(stdin, stdout, stderr, terminals, true);
    let look = Look {
        format: Some(Format::Json),
        color: ColorChoice::Never,
        quiet: true,
        zone,
        ..Look::default()
    };
    let tree = clap::Command::default;
    let command = command_spec::find(&tree(), &[]);
    Some(Context::new(settings(|_| ())?, Printer::new(look, streams, false), command, tree, &[]))
}

fn timeout() -> Duration {
    let set = std::env::var(TIMEOUT).ok().and_then(|text| duration::parse(&text).ok());
    set.unwrap_or(DEFAULT_TIMEOUT)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
