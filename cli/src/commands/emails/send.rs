//! `svc emails send`.

use chrono::{DateTime, FixedOffset, Local};
use clap::{Args, ValueHint};
use serde_json::Value;
use svc_sdk::email::{Attachment, Email, ScheduledAt};
use svc_sdk::{Operation, Outcome};

use crate::complete::at_file;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::attach::{self, Attach, Source};
use crate::input::{at, html, pairs};
use crate::sent::SentEmails;
use crate::{advice, output, wait};

use super::VIEW;

/// Send an email
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc emails send --from hello@example.com --to ada@example.org --subject Hi --text Hello
  svc emails send --from hello@example.com --to ada@example.org --subject Report \\
      --html @report.html --attach 'q3.pdf;name=Q3 report.pdf' --at 'tomorrow 9am'
  svc emails send --body @email.json --wait

Scope: emails:send (and emails:read with --wait)")]
pub struct Send {
    /// Sender, `a@b` or `Name <a@b>`; its domain must be verified
    #[arg(long, value_name = "ADDRESS", required_unless_present = "body")]
    from: Option<String>,
    /// Recipients, at most 50
    #[arg(long, value_name = "ADDRESS", num_args = 1.., required_unless_present = "body")]
    to: Vec<String>,
    /// Recipients of copies
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    cc: Vec<String>,
    /// Recipients of hidden copies
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    bcc: Vec<String>,
    /// Where answers go
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    reply_to: Vec<String>,
    /// Subject, at most 998 characters
    #[arg(long, value_name = "TEXT", required_unless_present = "body")]
    subject: Option<String>,
    /// HTML part: the text itself, @file, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// Plain-text part; made from the HTML where it is not given
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    /// Make no plain-text part from the HTML
    #[arg(long, conflicts_with = "text")]
    no_text: bool,
    /// A header of the email, repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
    header: Vec<(String, String)>,
    /// A file that goes along, at most 20: PATH[;name=N][;type=MIME]; -;name=N reads standard input
    #[arg(long, value_name = "PATH[;…]", value_parser = attach::parser(), allow_hyphen_values = true, value_hint = ValueHint::FilePath)]
    attach: Vec<Attach>,
    /// A tag for tracking, repeatable
    #[arg(long, value_name = "KEY=TEXT", value_parser = pairs::parse_text)]
    tag: Vec<(String, String)>,
    /// When to send: RFC 3339, +2h, or words such as 'tomorrow 9am'
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The template to use
    #[arg(long, value_name = "ID")]
    template: Option<String>,
    /// A variable of the template, repeatable; := takes JSON
    #[arg(long, value_name = "KEY=TEXT|KEY:=JSON", value_parser = pairs::parse)]
    var: Vec<pairs::Pair>,
    /// Variables of the template from a JSON object
    #[arg(long, value_name = "@FILE|-", add = at_file())]
    vars: Option<String>,
    /// The whole email as JSON; the other options change it
    #[arg(long, value_name = "@FILE|-|JSON", add = at_file())]
    body: Option<String>,
    /// Follow the status until it is final, with NDJSON a line for each change; 10 is the exit code when it bounced or failed
    #[arg(long)]
    wait: bool,
}

impl Send {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let wait = self.wait;
        let email = self.email(context)?;
        let client = context.email_client().await?;
        let call = client.emails().send(&email);
        let accepted = context
            .call(call, "sending")
            .await
            .map_err(|failure| advice::for_sender(failure, context, &email.from))?;
        let Some(accepted) = accepted else { return Ok(()) };
        let mut value = output::to_value(&accepted);
        let speaks_of_an_error =
            accepted.id.is_empty() && value.get("error").is_some_and(|error| !error.is_null());
        if !value.is_object() || speaks_of_an_error {
            context.out.value(&value)?;
            return Err(not_understood());
        }
        SentEmails::of(&context.settings).note([accepted.id.as_str()]);
        if accepted.id.is_empty() {
            context.out.one(&value, VIEW)?;
            if wait {
                return Err(Failure::other(
                    "the email was accepted, but the answer names no id: there is nothing to wait for",
                ));
            }
            context.out.note("accepted; the answer names no id, so it cannot be followed");
            return Ok(());
        }
        if !wait {
            context.out.one(&value, VIEW).map_err(|failure| accepted_as(&accepted.id, failure))?;
            let follow = format!("emails get {} --wait", accepted.id);
            context.out.hint(&format!("follow it: {}", context.svc(&follow)));
            return Ok(());
        }
        context.changes.follow(&accepted.id);
        let end = wait::for_email(context, &client, &accepted.id, Some(value.clone())).await;
        let end = end.map_err(|failure| given_up(context, &accepted.id, failure));
        if let Ok(last) = &end {
            value.clone_from(last);
        }
        if context.out.format() != output::Format::Ndjson || end.is_err() {
            context.out.one(&value, VIEW)?;
        }
        wait::verdict(&accepted.id, &end?)
    }

    fn email(self, context: &Context) -> Result<Email, Failure> {
        let read = |option, value: &str| context.inputs.text(&context.out, option, value);
        let mut email = match &self.body {
            Some(body) => parse_body(&read("--body", body)?)?,
            None => Email::default(),
        };
        if let Some(from) = self.from {
            email.from = from;
        }
        if let Some(subject) = self.subject {
            email.subject = subject;
        }
        replace(&mut email.to, one_each("--to", self.to)?);
        replace(&mut email.cc, one_each("--cc", self.cc)?);
        replace(&mut email.bcc, one_each("--bcc", self.bcc)?);
        replace(&mut email.reply_to, one_each("--reply-to", self.reply_to)?);
        if let Some(html) = &self.html {
            email.html = Some(read("--html", html)?);
        }
        if let Some(text) = &self.text {
            email.text = Some(read("--text", text)?);
        }
        email.headers.extend(pairs::object("--header", self.header)?);
        email.tags.extend(pairs::object("--tag", self.tag)?);
        if let Some(vars) = &self.vars {
            email.variables.extend(parse_variables(&read("--vars", vars)?)?);
        }
        email.variables.extend(pairs::object("--var", self.var)?);
        if let Some(template) = self.template {
            email.template_id = Some(template);
        }
        for file in self.attach {
            email.attachments.push(attachment(context, file)?);
        }
        if let Some(at) = &self.at {
            email.scheduled_at = Some(ScheduledAt::at(&instant(context, at)?));
        }
        if let (Some(html), None, None, false) =
            (&email.html, &email.text, &email.template_id, self.no_text)
        {
            email.text = Some(html::to_text(html));
            context.out.trace("made the text part from the HTML (--no-text prevents it)");
        }
        if email.subject.is_empty() && self.body.is_some() {
            return Err(Failure::input("the email has no subject: add it to --body, or --subject"));
        }
        Ok(email)
    }
}

/// An answer that cannot be written must not look like an email that was not sent.
fn accepted_as(id: &str, failure: Failure) -> Failure {
    if failure.kind() == Kind::BrokenPipe {
        return failure;
    }
    failure.hint(format!("the email was accepted as {id}: do not send it again"))
}

/// The wait failed, not the send: no exit code may invite to send again.
fn given_up(context: &Context, id: &str, mut failure: Failure) -> Failure {
    if matches!(failure.kind(), Kind::BrokenPipe | Kind::Interrupted) {
        return failure;
    }
    let details = failure.details_mut();
    if matches!(details.kind, Kind::Unavailable | Kind::RateLimited) {
        details.kind = Kind::OutcomeUnknown;
    }
    details.outcome = Some(Outcome::Unknown.as_str());
    details.retryable = Some(false);
    failure.hint(advice::accepted_as(context, id))
}

/// Something answered 2xx, but nothing that speaks of emails would answer so.
fn not_understood() -> Failure {
    let mut failure = Failure::new(
        Kind::OutcomeUnknown,
        "the answer is a success, but does not speak of an email",
    )
    .code("answer_not_understood");
    let details = failure.details_mut();
    details.operation = Some(Operation::EmailsSend);
    details.outcome = Some(Outcome::Unknown.as_str());
    failure
}

/// What the command line gives replaces what the body says.
fn replace(list: &mut Vec<String>, given: Vec<String>) {
    if !given.is_empty() {
        *list = given;
    }
}

pub(super) fn parse_body(text: &str) -> Result<Email, Failure> {
    serde_json::from_str::<Email>(text).map_err(|error| {
        Failure::input(format!("--body is not an email: {}", crate::input::json_problem(&error)))
            .hint("an email is {\"from\", \"to\", \"subject\", \"html\", \"text\", …}: svc schema emails send")
    })
}

fn parse_variables(text: &str) -> Result<serde_json::Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::input(format!(
            "--vars is not a JSON object: {}",
            crate::input::json_problem(&error)
        ))
    })
}

/// Names may hold commas, so addresses are not taken apart; a list of them is a
/// mistake that is better met here than as one odd address at the service.
fn one_each(option: &str, addresses: Vec<String>) -> Result<Vec<String>, Failure> {
    let is_list = |text: &String| {
        !text.contains('"') && text.contains(',') && text.split(',').all(|part| part.contains('@'))
    };
    if addresses.iter().any(is_list) {
        return Err(Failure::usage(format!("{option}: several addresses in one"))
            .hint(format!("write them apart: {option} ADDRESS ADDRESS, or {option} for each")));
    }
    Ok(addresses)
}

fn attachment(context: &Context, file: Attach) -> Result<Attachment, Failure> {
    let attachment = match &file.source {
        Source::File(path) => Attachment::from_path(path)
            .map_err(|error| Failure::input(format!("--attach: {}: {error}", path.display())))?,
        Source::Stdin => {
            Attachment::from_bytes("", context.inputs.stdin(&context.out, "--attach")?)
        }
    };
    let attachment = attachment.filename(file.name);
    Ok(match file.content_type {
        Some(content_type) => attachment.content_type(content_type),
        None => attachment,
    })
}

/// The instant that words mean, said back so that a mistake is seen.
fn instant(context: &Context, words: &str) -> Result<DateTime<FixedOffset>, Failure> {
    let now = Local::now();
    let instant =
        at::parse(words, &now).map_err(|error| Failure::usage(format!("--at: {error}")))?;
    let shown = output::local_time(&instant.to_rfc3339());
    let said = match instant <= now {
        true => format!("sending at once: {shown} is not in the future"),
        false => format!("to be sent at {shown}"),
    };
    // Programs find it in the request and in the answer.
    if context.out.is_table() {
        context.out.note(&said);
    } else {
        context.out.trace(&said);
    }
    Ok(instant)
}
