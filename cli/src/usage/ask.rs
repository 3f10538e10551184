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

/// Asks for missing values on a terminal and returns the complete command line. `None` if the
/// command asks for nothing. After an answer that the command would refuse, the question is
/// repeated. An empty answer ends the questions with a failure that names what is still missing.
pub fn ask(
    error: &clap::Error,
    tree: fn() -> Command,
    args: &[OsString],
    out: &Printer,
) -> Result<Option<Vec<OsString>>, Failure> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return Ok(None);
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if !is_missing || !out.can_ask() || !out.is_table() || args.iter().any(|arg| arg == "--") {
        return Ok(None);
    }
    let text = error.render().to_string();
    let path = path(text.split("\n\n").find(|it| it.starts_with("Usage: ")).unwrap_or_default());
    let Some((_, questions)) = QUESTIONS.iter().find(|(asking, _)| *asking == path) else {
        return Ok(None);
    };
    let names = missing.iter().map(|name| name.split(' ').next().unwrap_or_default());
    let names = names.collect::<Vec<_>>();
    if names.iter().any(|name| !questions.iter().any(|(known, ..)| known == name)) {
        return Ok(None);
    }
    let questions = questions.iter().filter(|(name, ..)| names.contains(name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let completed: Result<_, Failure> = runtime.block_on(async {
        let mut args = args.to_vec();
        for (name, question, check) in questions {
            let with_answer = |answer: &str| {
                check(answer)?;
                let word = match name.starts_with("--") {
                    // With `=`, an answer that begins with a dash is a value too.
                    true => format!("{name}={answer}"),
                    false => answer.to_owned(),
                };
                let args = [&args[..], &[word.into()]].concat();
                parse_again(tree, &args).map(|()| args)
            };
            match out.ask_until(question, with_answer).await? {
                Some(completed) => args = completed,
                None => return Err(still_missing(tree, &args)),
            }
        }
        Ok(Some(args))
    });
    // The thread of a prompt that was interrupted is still reading standard input.
    runtime.shutdown_background();
    completed
}

/// Checks the command line so far. Other values may still be missing.
fn parse_again(tree: fn() -> Command, args: &[OsString]) -> Result<(), Failure> {
    match tree().try_get_matches_from(args) {
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(failure(&error)),
        _ => Ok(()),
    }
}

/// What is missing on the command line with the answers so far.
fn still_missing(tree: fn() -> Command, args: &[OsString]) -> Failure {
    match tree().try_get_matches_from(args) {
        Err(error) => failure(&error),
        Ok(_) => Failure::usage("the last value is missing"),
    }
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
