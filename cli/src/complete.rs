//! Shell completion of values: ids, names and what the documentation lists. `CompleteEnv` completes
//! commands and options, and calls these functions in a process of its own.
//!
//! What a service or the sandbox has is listed by the commands of `svc`, each in another process, and
//! only for a limited time. No server is started for it.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use serde_json::Value;
use svc_sdk::{Operation, Scope, Service};

use crate::events;
use crate::output::one_line;
use crate::process::Process;
use crate::recorded_deliveries::RecordedDeliveries;
use crate::sandbox::Sandbox;
use crate::settings::{Env, GlobalFlags, Settings};

/// The environment variable that requests candidates and names the shell.
pub const VARIABLE: &str = "SVC_COMPLETE";
/// The environment variable with the time limit for a request to a service.
const TIMEOUT: &str = "SVC_COMPLETE_TIMEOUT";
/// The default time limit. The user waits at the prompt.
const DEFAULT_TIMEOUT: &str = "1s";

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
    /// Emails of the sandbox, with `--sandbox`. The service has no list of emails.
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
            found
                .filter_map(|(value, about)| candidate(&value, &about))
                .collect()
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
                let profiles = settings(&typed())?.profiles().ok()?;
                let url = |name: &str| {
                    profiles
                        .text(name, "email_url")
                        .unwrap_or_default()
                        .to_owned()
                };
                profiles
                    .names()
                    .into_iter()
                    .map(|name| (name.clone(), url(&name)))
                    .collect()
            }
            Self::Record => {
                let (all, _) = RecordedDeliveries::in_dir(&settings(&typed())?.data_dir)
                    .all()
                    .ok()?;
                let newest = all.into_iter().rev().take(SHOWN);
                newest
                    .map(|it| (it.id, it.event.unwrap_or_default()))
                    .collect()
            }
            Self::Job => listed(&["bulk", "list"], "subject")?,
            Self::Email if !settings(&typed())?.sandbox => return None,
            Self::Audience => with_names(listed(&["audiences", "list"], "name")?),
            Self::Domain => with_names(listed(&["domains", "list"], "name")?),
            Self::DomainName => names(&listed(&["domains", "list"], "name")?),
            Self::Contact => {
                let audiences = listed(&["audiences", "list"], "name")?;
                let lists = audiences
                    .iter()
                    .take(MAX_AUDIENCES)
                    .filter_map(|(id, _)| start(&["contacts", "list", "--page-size=50", "--", id]));
                // All are started before the first one is read.
                let lists = lists.collect::<Vec<_>>().into_iter();
                lists
                    .filter_map(|list| read(list, "email"))
                    .flatten()
                    .collect()
            }
            Self::Webhook => listed(&["webhooks", "list"], "url")?,
            Self::ExtractionWebhook => listed(&["extraction", "webhooks", "list"], "url")?,
            Self::SandboxKey => listed(&["sandbox", "keys", "list"], "service")?,
            Self::Email | Self::SandboxEmail => listed(&["sandbox", "emails", "list"], "subject")?,
            Self::SandboxRequest => listed(&["sandbox", "requests", "list"], "operation")?,
            Self::Template => listed(&["sandbox", "templates", "list"], "subject")?,
            Self::Message => listed(&["sandbox", "messages", "list"], "subject")?,
            Self::Delivery => listed(&["sandbox", "deliveries", "list"], "event")?,
            Self::Fault => listed(&["sandbox", "faults", "list"], "operation")?,
        })
    }
}

fn plain<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<Found> {
    values
        .into_iter()
        .map(|value| (value.into(), String::new()))
        .collect()
}

/// Completes `@FILE` for an option that takes text or a file.
pub fn at_file() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let path = current.to_str().and_then(|text| text.strip_prefix('@'));
        let found = path.map(|path| PathCompleter::any().complete(OsStr::new(path)));
        let found = found.unwrap_or_default().into_iter();
        found
            .map(|candidate| candidate.add_prefix("@"))
            .collect::<Vec<_>>()
    })
}

/// Completes the domain of a sender with those of the account.
pub fn sender() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some((name, _)) = current.to_str().and_then(|text| text.split_once('@')) else {
            return Vec::new();
        };
        let domains = Values::DomainName.find().unwrap_or_default();
        let senders = domains
            .into_iter()
            .map(|(domain, about)| (format!("{name}@{domain}"), about));
        let typed = current.to_string_lossy().into_owned();
        let senders = senders.filter(|(sender, _)| sender.starts_with(&typed));
        senders
            .filter_map(|(sender, about)| candidate(&sender, &about))
            .collect()
    })
}

/// A value and its description.
type Found = (String, String);

/// The global options of the command line that is completed. clap passes only the current word to a
/// completer.
fn typed() -> GlobalFlags {
    let words = std::env::args_os().skip_while(|arg| arg != "--").skip(1);
    GlobalFlags::found_in(&words.collect::<Vec<_>>())
}

fn settings(flags: &GlobalFlags) -> Option<Settings> {
    Settings::resolve(flags, &Env::of(&Process::current())).ok()
}

/// The ids that a command lists, each with the field that describes it.
fn listed(command: &[&str], about: &str) -> Option<Vec<Found>> {
    read(start(command)?, about)
}

/// Starts a command that prints a list, with the options that decide about the service.
fn start(command: &[&str]) -> Option<Child> {
    let mut flags = typed();
    let settings = settings(&flags)?;
    // Jobs are recorded on this machine.
    let is_of_sandbox = settings.sandbox || command[0] == "sandbox";
    if is_of_sandbox && command[0] != "bulk" {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        runtime.block_on(Sandbox::running_url(&settings)).ok()??;
    } else if let Some(path) = &flags.key_file {
        // A key on standard input would be typed at the prompt, and a named pipe waits.
        settings.path(path).is_file().then_some(())?;
    } else {
        // A command for a key may take long, or ask a person.
        let services = [Service::Email, Service::Extraction];
        let asks = |service: &Service| settings.is_from_command(*service);
        (!services.iter().any(asks)).then_some(())?;
    }

    let limit = std::env::var(TIMEOUT).unwrap_or_else(|_| DEFAULT_TIMEOUT.to_owned());
    (flags.timeout, flags.retries) = (Some(limit), Some(0));
    let mut svc = Command::new(std::env::current_exe().ok()?);
    svc.env_remove(VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    svc.arg("--json")
        .args(flags.of_service())
        .args(command)
        .spawn()
        .ok()
}

/// Reads the list that a command prints.
fn read(list: Child, about: &str) -> Option<Vec<Found>> {
    let output = list.wait_with_output().ok()?;
    let items = serde_json::from_slice::<Vec<Value>>(&output.stdout).ok()?;
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let found = items.iter().take(10 * SHOWN).map(|item| {
        let id = text(item, "id") + &text(item, "job");
        (id, text(item, about))
    });
    Some(found.filter(|(id, _)| !id.is_empty()).collect())
}

/// The names, each with its id. One that several have would be refused.
fn names(found: &[Found]) -> Vec<Found> {
    let is_unique = |(_, name): &&Found| found.iter().filter(|(_, it)| it == name).count() == 1;
    found
        .iter()
        .filter(is_unique)
        .map(|(id, name)| (name.clone(), id.clone()))
        .collect()
}

fn with_names(ids: Vec<Found>) -> Vec<Found> {
    [names(&ids), ids].concat()
}

/// Maximum number of audiences whose contacts are listed.
const MAX_AUDIENCES: usize = 5;
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
        for value in [
            "",
            "-rf",
            "a b",
            "$(reboot)",
            "`x`",
            "a;b",
            "a\nb",
            "a\u{1b}[2J",
            "a*",
            "'",
        ] {
            assert!(candidate(value, "").is_none(), "{value:?}");
        }

        let found = candidate("aud_1", "News\u{1b}[2J\nletter").expect("a candidate");
        let help = found.get_help().expect("a description").to_string();
        assert_eq!(help, "News\\u{1b}[2J\\nletter");
    }
}
