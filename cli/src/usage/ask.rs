//! Asks for missing values on a terminal.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{failure, path};
use crate::failure::Failure;
use crate::output::Printer;
use crate::urls::check_url;

/// Commands whose missing values are asked for, each with the questions.
const QUESTIONS: &[(&str, &[Question])] = &[
    (
        "emails send",
        &[
            ("--from", "From: ", check_address),
            ("--to", "To: ", check_address),
            ("--subject", "Subject: ", accept),
        ],
    ),
    (
        "webhooks create",
        &[
            ("<URL>", "HTTPS URL that receives the events: ", check_webhook),
            ("--event", "Events, such as email.delivered,email.bounced: ", accept),
        ],
    ),
    (
        "extraction webhooks create",
        &[
            ("<URL>", "HTTPS URL that receives the events: ", check_webhook),
            ("--event", "Events, such as extraction.completed: ", accept),
        ],
    ),
];

/// A missing value, the question, and a check beyond those of the command line.
type Question = (&'static str, &'static str, fn(&str) -> Result<(), Failure>);

/// Asks for the first missing value on a terminal and returns the command line with it. `None` if the
/// command asks for nothing. After an answer that the command would refuse, the question is repeated.
/// An empty answer is a failure that names what is missing.
pub fn ask(
    error: &clap::Error,
    tree: fn() -> Command,
    args: &[OsString],
    out: &Printer,
) -> Result<Option<Vec<OsString>>, Failure> {
    let can_ask = out.can_ask() && out.is_table() && !args.iter().any(|arg| arg == "--");
    let Some((name, question, check)) = missing(error).filter(|_| can_ask) else {
        return Ok(None);
    };
    let with_answer = |answer: &str| {
        check(answer)?;
        let word = match name.starts_with("--") {
            // With `=`, an answer that begins with a dash is a value too.
            true => format!("{name}={answer}"),
            false => answer.to_owned(),
        };
        let args = [args, &[word.into()]].concat();
        match tree().try_get_matches_from(&args) {
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
                Err(failure(&error))
            }
            _ => Ok(args),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let completed = runtime.block_on(out.ask_until(question, with_answer));
    // The thread of a prompt that was interrupted is still reading standard input.
    runtime.shutdown_background();
    completed?.ok_or_else(|| failure(error)).map(Some)
}

/// The question for the first missing value, if the command asks for all that are missing.
fn missing(error: &clap::Error) -> Option<&'static Question> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let text = error.render().to_string();
    let path = path(text.split("\n\n").find(|it| it.starts_with("Usage: "))?);
    let (_, questions) = QUESTIONS.iter().find(|(asking, _)| *asking == path)?;
    let names = missing.iter().map(|name| name.split(' ').next().unwrap_or_default());
    let names = names.collect::<Vec<_>>();
    let asks = |name: &&str| questions.iter().any(|(known, ..)| known == name);
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument && names.iter().all(asks);
    questions.iter().find(|(name, ..)| names.contains(name)).filter(|_| is_missing)
}

fn accept(_: &str) -> Result<(), Failure> {
    Ok(())
}

/// Checks an address as the SDK does before it sends an email.
fn check_address(text: &str) -> Result<(), Failure> {
    let email = svc_sdk::email::Email::new(text, text, "s").text("t");
    email.check().map_err(|invalid| Failure::input(invalid.problem.to_string()))
}

fn check_webhook(text: &str) -> Result<(), Failure> {
    check_url("URL", text)
}
