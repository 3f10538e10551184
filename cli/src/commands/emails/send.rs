//! `svc emails send`: makes an `Email` of the options and `--body`, shows or sends it, and with
//! `--wait` follows it to its final status. Whatever fails after the service has accepted the
//! email, such as printing or waiting, must not look as if it had not been sent: the failure names
//! the ID and says not to send it again. `content.rs` reads the options that `bulk send` has, too,
//! and `fields.rs` checks the fields.

use std::ffi::OsString;

use clap::Args;
use serde_json::Value;
use svc_sdk::Operation::{EmailsGet, EmailsSend};
use svc_sdk::Outcome;
use svc_sdk::email::{Attachment, Email};

use super::content::{self, Content};
use super::fields::has_content;
use super::{VIEW, fields, follow};
use crate::command_line::shell_quoted;
use crate::command_spec::creates;
use crate::complete::at_file;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::attach::Attach;
use crate::input::{html, json_problem, pairs, read_json};
use crate::output::one_line;
use crate::output_schema::email;
use crate::prepared::Prepared;
use crate::{hints, time_options};

/// Send an email
#[derive(Args, Debug)]
#[command(add = creates(&[EmailsSend, EmailsGet], email).with_scope("emails:send (and emails:read with --wait)"))]
#[command(after_long_help = "\
  svc emails send --from hello@example.com --to ada@example.org --subject Hi \\
      --text Hello
  svc emails send --from hello@example.com --to ada@example.org \\
      --subject Report --html @report.html \\
      --attach 'q3.pdf;name=Q3 report.pdf' --at 'tomorrow 9am'
  svc emails send --body @email.json --wait")]
#[command(mut_arg("from", |it| it.required_unless_present("body")))]
#[command(mut_arg("subject", |it| it.required_unless_present("body")))]
pub struct Send {
    /// Recipients, 1 to 50; repeatable
    #[arg(long, value_name = "ADDRESS", num_args = 1.., required_unless_present = "body")]
    to: Vec<String>,
    /// CC recipients; repeatable
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    cc: Vec<String>,
    /// BCC recipients; repeatable
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    bcc: Vec<String>,
    #[command(flatten)]
    content: Content,
    /// Do not derive a plain-text body from the HTML
    #[arg(long, hide_short_help = true, conflicts_with = "text")]
    no_text: bool,
    /// Template variable; repeatable
    ///
    /// KEY=TEXT sets a text, KEY:=JSON a JSON value.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    var: Vec<pairs::Pair>,
    /// Template variables as a JSON object
    #[arg(long, hide_short_help = true, value_name = "@FILE|-", add = at_file())]
    vars: Option<OsString>,
    /// Email as JSON; the other options override it
    ///
    /// A misspelled field is refused, and another one that is not documented is sent with a
    /// warning.
    #[arg(long, value_name = "@FILE|-|JSON", add = at_file())]
    body: Option<OsString>,
    /// Wait for the final status
    ///
    /// The exit code is 10 if the email bounced, failed or was cancelled, and 9 if its status is not
    /// final when --timeout [default: 30s] has passed. With -o ndjson, each status change is a line.
    #[arg(long)]
    wait: bool,
}

impl Send {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let wait = self.wait;
        let has_body = self.body.is_some();
        let email = self.email(context).await?;
        if !has_content(&email) {
            return Err(Failure::usage("the email has no content").hint(
                "give --text, --html, --template or --attach; --text '' sends an empty email",
            ));
        }

        let question = context.clients.question_about_service()?;
        let client = context.clients.email_client().await?;
        let call = context.caller.with_options(client.emails().send(&email));
        let sent = async {
            let call = Prepared::new(call).asking(question).decide(context).await?;
            // Its time may have passed before somebody decided.
            check_schedule(context, &email).await?;
            context.caller.send(call, "sending").await
        };
        let accepted = sent.await.map_err(|failure| {
            let failure = with_options(failure, &email, has_body);
            hints::for_sender(failure, context, &email.from)
        })?;
        if !wait {
            let shown = context.out.one(&accepted, VIEW);
            shown.map_err(|failure| accepted_as(&accepted.id, failure))?;
            let follow = context.svc("emails get {} --wait", &[&accepted.id]);
            context.out.hint(&format!("track its status: {follow}"));
            return Ok(());
        }

        context.caller.changes.follow(&accepted.id);
        let id = accepted.id.clone();
        let end = follow(context, &client, &id, Some(accepted)).await;
        end.map_err(|failure| wait_failed(context, &id, failure))
    }

    async fn email(self, context: &Context) -> Result<Email, Failure> {
        let mut email = match &self.body {
            Some(body) => parse_body(&context.text("--body", body)?)?,
            None => Email::default(),
        };
        self.content.apply(context, &mut email).await?;
        content::replace(&mut email.to, "--to", &self.to)?;
        content::replace(&mut email.cc, "--cc", &self.cc)?;
        content::replace(&mut email.bcc, "--bcc", &self.bcc)?;
        if let Some(vars) = &self.vars {
            email
                .variables
                .extend(parse_variables(&context.text("--vars", vars)?)?);
        }

        email.variables.extend(pairs::object("--var", self.var)?);
        for Attach { path, file } in &self.content.attach {
            let content = context.bytes("--attach", path)?;
            email
                .attachments
                .push(file.describe(Attachment::from_bytes("", content)));
        }

        fields::settle_addresses(&mut email).map_err(|(field, problem)| {
            let mut failure = Failure::input(format!("{field}: {problem}"))
                .hint("nothing was sent; type the address anew");
            failure.fields = vec![(field, problem)];
            with_options(failure, &email, self.body.is_some())
        })?;
        if self.content.at.is_none() {
            check_schedule(context, &email).await?;
        }
        if let (Some(html), None, None, false) =
            (&email.html, &email.text, &email.template_id, self.no_text)
        {
            email.text = Some(html::to_text(html));
            context
                .out
                .trace("derived the plain-text body from the HTML (--no-text prevents it)");
        }
        if !email.variables.is_empty() && email.template_id.is_none() {
            return Err(Failure::usage("variables need a template")
                .hint("name it with --template ID, or remove the variables"));
        }

        let local_checks = context.clients.checks_limits().await?;
        if local_checks {
            if let Some((name, meant)) = fields::misspelled(&email) {
                let problem = format!("--body: unknown field `{name}`: did you mean `{meant}`?");
                let hint = "nothing was sent; limits = \"other\" in the profile's dialect sends the field as it is";
                return Err(Failure::input(problem).hint(hint));
            }
            fields::warn(context, fields::undocumented(&email));
        }

        fields::warn_of_placeholders(context, [&email]);
        if email.subject.is_empty() && self.body.is_some() {
            return Err(Failure::input(
                "the email has no subject: add it to --body or give --subject",
            ));
        }

        Ok(email)
    }
}

async fn check_schedule(context: &Context, email: &Email) -> Result<(), Failure> {
    let Some(at) = &email.scheduled_at else {
        return Ok(());
    };

    let now = time_options::now(context).await?;
    let local_checks = context.clients.checks_limits().await?;
    time_options::check_schedule(at, &now, local_checks).map_err(|problem| {
        Failure::input(format!("scheduledAt: {problem}"))
            .hint("give a later time, or remove scheduledAt to send now")
    })
}

/// Names the option and the value of an address that is refused, in place of a field of the API.
fn with_options(mut failure: Failure, email: &Email, has_body: bool) -> Failure {
    if has_body || failure.kind() != Kind::InvalidInput {
        return failure;
    }

    let lists = [
        ("to", "--to", &email.to),
        ("cc", "--cc", &email.cc),
        ("bcc", "--bcc", &email.bcc),
        ("replyTo", "--reply-to", &email.reply_to),
    ];
    for (field, option, addresses) in lists {
        for (index, address) in addresses.iter().enumerate() {
            let start = format!("{field}[{index}]: ");
            let Some(problem) = failure.message.strip_prefix(&start) else {
                continue;
            };
            let address = one_line(address);
            failure.message = match problem.strip_prefix("not ") {
                Some(rest) => format!("{option}: `{address}` is not {rest}"),
                None => format!("{option}: `{address}`: {problem}"),
            };
            return failure;
        }
    }

    if let Some(problem) = failure.message.strip_prefix("from: ") {
        failure.message = format!("--from: {problem}");
    }
    failure
}

/// A failure to print the result must not look like an email that was not sent.
fn accepted_as(id: &str, failure: Failure) -> Failure {
    if failure.kind() == Kind::BrokenPipe {
        return failure;
    }
    failure.hint(format!(
        "the email was accepted as {}: do not send it again",
        shell_quoted(id)
    ))
}

/// The wait failed, not the send: the exit code must not suggest sending again.
fn wait_failed(context: &Context, id: &str, mut failure: Failure) -> Failure {
    if matches!(
        failure.kind(),
        Kind::BrokenPipe | Kind::Interrupted | Kind::CheckFailed
    ) {
        return failure;
    }

    if matches!(failure.kind, Kind::Unavailable | Kind::RateLimited) {
        failure.kind = Kind::OutcomeUnknown;
    }
    failure.outcome = Some(Outcome::Unknown.as_str());
    failure.retryable = Some(false);
    failure.hint(hints::accepted_as(context, id))
}

pub(super) fn parse_body(text: &str) -> Result<Email, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::input(format!("--body is not an email: {}", json_problem(&error)))
            .hint("an email is {\"from\", \"to\", \"subject\", \"html\", \"text\", …}: svc schema emails send\n\
                    its content alone: --text or --html")
    })
}

/// Reads `--vars`.
pub(crate) fn parse_variables(text: &str) -> Result<serde_json::Map<String, Value>, Failure> {
    read_json(text)
        .map_err(|problem| Failure::input(format!("--vars is not a JSON object: {problem}")))
}
