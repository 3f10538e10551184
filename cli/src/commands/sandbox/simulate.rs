//! The `svc sandbox` commands that simulate what happens outside: events of emails, incoming emails
//! and extractions.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use svc_reference_server::client::{Client, EmailEvent, InboundMessage, Received};
use svc_sdk::email::Email;

use crate::command_spec::changes;
use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{self, Given as _, OfOrganization};
use crate::failure::Failure;
use crate::input::{json_or_text, read_json};
use crate::output_schema::{email, of};

/// Simulate an event of an email
///
/// The status of the email changes and webhooks are delivered as they would be for a real event.
#[derive(Args, Debug)]
#[command(add = changes(&[], email).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox event eml_019a bounced --detail 'mailbox full'
  svc sandbox event eml_019a bounced --recipient ada@example.test \\
      --detail '{\"type\":\"soft\"}'")]
pub struct Event {
    /// Email id
    #[arg(add = Values::SandboxEmail.candidates())]
    id: String,
    /// Event
    #[arg(value_parser = ["delivered", "bounced", "complained", "failed", "opened", "clicked"])]
    event: String,
    /// Affected recipient [default: all eligible ones]
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// Reason or clicked link; or a JSON object with details
    #[arg(long, value_name = "TEXT|JSON")]
    detail: Option<String>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Event {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let detail = |text: String| match text.trim_start().starts_with('{') {
            true => json_or_text(text),
            false => Value::from(text),
        };
        let event = EmailEvent::new(&self.event)
            .given(self.recipient, EmailEvent::recipient)
            .given(self.detail.map(detail), EmailEvent::detail);
        let sentence = format!("email {} is {}", self.id, self.event);
        let request = |client: &Client| client.emails().simulate(&self.id, &event);
        self.organization.done(context, &sentence, request).await
    }
}

/// Simulate an incoming email
///
/// Delivers the event email.received to the webhooks of the recipient's domain.
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Received>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox inbound --from ada@example.test --to hello@sandbox.test \\
      --subject Hi --text Hello
  svc sandbox inbound --raw message.eml")]
pub struct Inbound {
    /// Sender address
    #[arg(long, value_name = "ADDRESS", required_unless_present = "raw")]
    from: Option<String>,
    /// Recipient address, in a verified domain
    #[arg(long, value_name = "ADDRESS", required_unless_present = "raw")]
    to: Option<String>,
    /// Subject
    #[arg(long, value_name = "TEXT", required_unless_present = "raw")]
    subject: Option<String>,
    /// Plain-text body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    /// HTML body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// RFC 5322 message: a file or - for stdin
    #[arg(long, value_name = "PATH|-", conflicts_with_all = ["from", "to", "subject", "text", "html"], value_hint = ValueHint::FilePath)]
    raw: Option<PathBuf>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Inbound {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (organization, sentence) = (self.organization, "received the email");
        if let Some(path) = &self.raw {
            let source = context.inputs.bytes(&context.out, "--raw", path)?;
            let request = |client: &Client| client.inbound().receive_raw(source);
            return organization.done(context, sentence, request).await;
        }
        let read =
            |option, text: Option<String>| text.map(|text| context.text(option, &text)).transpose();
        // clap requires both without `--raw`.
        let (from, to) = (self.from.unwrap_or_default(), self.to.unwrap_or_default());
        let message = InboundMessage::new(from, to)
            .given(self.subject, InboundMessage::subject)
            .given(read("--text", self.text)?, InboundMessage::text)
            .given(read("--html", self.html)?, InboundMessage::html);
        organization.done(context, sentence, |client| client.inbound().receive(&message)).await
    }
}

/// Simulate a completed or failed extraction
///
/// Webhooks are delivered as they would be for a real extraction.
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<svc_reference_server::client::Extraction>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox extraction completed --data '{\"total\": 12}'
  svc sandbox extraction failed")]
pub struct Extraction {
    /// Outcome of the extraction
    #[arg(value_parser = ["completed", "failed"])]
    outcome: String,
    /// Event data as JSON: text, @file or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", add = at_file())]
    data: Option<String>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Extraction {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let data = self
            .data
            .map(|data| {
                let text = context.text("--data", &data)?;
                read_json::<Map<String, Value>>(&text)
                    .map_err(|problem| Failure::input(format!("--data: {problem}")))
            })
            .transpose()?;
        let event = format!("extraction.{}", self.outcome);
        let sentence = format!("extraction {}", self.outcome);
        let request = |client: &Client| client.extractions().simulate(&event, data);
        self.organization.done(context, &sentence, request).await
    }
}

/// Makes an event happen in the sandbox, with the addresses and texts of its example, which gets the
/// id of the email.
pub async fn happen(context: &Context, event: &str, body: &mut Value) -> Result<(), Failure> {
    let (client, data) = (control::client(context, None).await?, &mut body["data"]);
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let (from, subject, recipient) = (text("from"), text("subject"), text("recipient"));
    match event.rsplit_once('.') {
        Some(("extraction", _)) => {
            let request = client.extractions().simulate(event, data.as_object().cloned());
            control::send(context, request).await?;
        }
        Some((_, "received")) => {
            let message = InboundMessage::new(from, recipient).subject(subject).text(text("text"));
            let received = control::send(context, client.inbound().receive(&message)).await?;
            if let Some(message) =
                received.and_then(|received| received.messages.into_iter().next())
            {
                data["messageId"] = message.id.into();
            }
        }
        Some((_, change)) => {
            // The sandbox bounces what is sent to `bounced@`, for example.
            let is_example = recipient == "ada@example.test";
            let is_outcome = ["bounced", "complained", "failed"].contains(&change) && is_example;
            let recipient = if is_outcome { format!("{change}@example.test") } else { recipient };
            let email = Email::new(from, [&recipient], subject).text("Sent by svc trigger.");
            let client_of_service = context.email_client().await?;
            let call = client_of_service.emails().send(&email);
            let Some(sent) = context.call(call, "sending").await? else { return Ok(()) };
            (data["emailId"], data["recipient"]) = (sent.id.clone().into(), recipient.into());
            settle(context, &client).await?;
            if !is_outcome && !["sent", "delivered"].contains(&change) {
                let detail = ["bounce", "click", "reason"].iter().find_map(|name| data.get(*name));
                let event = EmailEvent::new(change).given(detail.cloned(), EmailEvent::detail);
                control::send(context, client.emails().simulate(&sent.id, &event)).await?;
            }
        }
        None => {}
    }
    settle(context, &client).await
}

async fn settle(context: &Context, client: &Client) -> Result<(), Failure> {
    match context.settings.dry_run {
        true => Ok(()),
        false => {
            let request = client.clock().settle(context.settings.timeout.value);
            control::send(context, request).await.map(drop)
        }
    }
}
