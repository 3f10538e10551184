//! The `svc sandbox` commands that simulate what happens outside: events of emails, incoming emails
//! and extractions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use svc_reference_server::client::{
    Client, EmailEvent, Extraction as ExtractionEvent, InboundMessage, Received, Request,
};
use svc_sdk::Call;
use svc_sdk::email::{Email, EmailRecord};

use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{self, changes};
use crate::failure::Failure;
use crate::input::{json_or_text, read_json};
use crate::output_schema::{email, of};
use crate::prepared::Preview;

/// Simulate an event of an email
///
/// The status of the email changes and webhooks are delivered as they would be for a real event.
#[derive(Args, Debug)]
#[command(add = changes(email).of_organization().listed_by("sandbox emails list"))]
#[command(after_long_help = "\
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
}

impl Event {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let detail = |text: String| {
            if text.trim_start().starts_with('{') {
                json_or_text(text)
            } else {
                Value::from(text)
            }
        };

        let sentence = format!("marked email {} as {}", self.id, self.event);
        let recipient = self.recipient;
        let detail = self.detail.map(detail);
        let event = EmailEvent {
            organization: None,
            event: self.event,
            recipient,
            detail,
        };
        let client = control::client(context).await?;
        control::done(context, &sentence, client.simulate_event(&self.id, &event)).await
    }
}

/// Simulate an incoming email
///
/// Delivers the event email.received to the webhooks of the recipient's domain.
#[derive(Args, Debug)]
#[command(add = changes(of::<Received>).of_organization())]
#[command(after_long_help = "\
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
    text: Option<OsString>,
    /// HTML body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<OsString>,
    /// RFC 5322 message: a file or - for stdin
    #[arg(long, value_name = "PATH|-", conflicts_with_all = ["from", "to", "subject", "text", "html"], value_hint = ValueHint::FilePath)]
    raw: Option<PathBuf>,
}

impl Inbound {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        let request = if let Some(path) = &self.raw {
            client.receive_raw(context.bytes("--raw", path)?)
        } else {
            // clap requires both without `--raw`.
            let from = self.from.unwrap_or_default();
            let to = self.to.unwrap_or_default();
            client.receive(&InboundMessage {
                subject: self.subject,
                text: self
                    .text
                    .map(|text| context.text("--text", &text))
                    .transpose()?,
                html: self
                    .html
                    .map(|html| context.text("--html", &html))
                    .transpose()?,
                ..InboundMessage::new(from, to)
            })
        };
        control::done(context, "received the email", request).await
    }
}

/// Simulate a completed or failed extraction
///
/// Webhooks are delivered as they would be for a real extraction.
#[derive(Args, Debug)]
#[command(add = changes(of::<ExtractionEvent>).of_organization())]
#[command(after_long_help = "\
  svc sandbox extraction completed --data '{\"total\": 12}'
  svc sandbox extraction failed")]
pub struct Extraction {
    /// Outcome of the extraction
    #[arg(value_parser = ["completed", "failed"])]
    outcome: String,
    /// Event data as JSON: text, @file or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", add = at_file())]
    data: Option<OsString>,
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
        let client = control::client(context).await?;
        control::done(context, &sentence, client.simulate_extraction(&event, data)).await
    }
}

/// The steps that make an event happen in the sandbox, with the addresses and texts of its example.
pub struct Happening {
    client: Client,
    cause: Cause,
}

enum Cause {
    Extraction(Request<ExtractionEvent>),
    Inbound(Request<Received>),
    /// An email is sent. Then an event of it is simulated, unless the sandbox itself does what is asked.
    Sent {
        email: Call<EmailRecord>,
        recipient: String,
        event: Option<EmailEvent>,
    },
}

impl Happening {
    /// Reads from the body of an event what has to happen.
    pub async fn new(context: &Context, event: &str, body: &Value) -> Result<Self, Failure> {
        let client = control::client(context).await?;
        let data = &body["data"];
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        let from = text("from");
        let subject = text("subject");
        let recipient = text("recipient");
        let (group, change) = event.rsplit_once('.').unwrap_or(("", event));
        let cause = match (group, change) {
            ("extraction", _) => {
                let data = data.as_object().cloned();
                Cause::Extraction(client.simulate_extraction(event, data))
            }
            (_, "received") => Cause::Inbound(client.receive(&InboundMessage {
                subject: Some(subject),
                text: Some(text("text")),
                ..InboundMessage::new(from, recipient)
            })),
            _ => {
                // The sandbox bounces what is sent to `bounced@`, for example.
                let is_outcome = ["bounced", "complained", "failed"].contains(&change)
                    && recipient == "ada@example.test";
                let recipient = if is_outcome {
                    format!("{change}@example.test")
                } else {
                    recipient
                };
                let email = Email::new(from, [&recipient], subject).text("Sent by svc trigger.");
                let service = context.clients.email_client().await?;
                let happens_by_itself = is_outcome || ["sent", "delivered"].contains(&change);
                let event = (!happens_by_itself).then(|| EmailEvent {
                    detail: ["bounce", "click", "reason"]
                        .iter()
                        .find_map(|name| data.get(*name))
                        .cloned(),
                    ..EmailEvent::new(change)
                });
                Cause::Sent {
                    email: context.caller.with_options(service.emails().send(&email)),
                    recipient,
                    event,
                }
            }
        };
        Ok(Self { client, cause })
    }

    /// Makes it happen, and waits for what follows. The body gets the id of the email.
    pub async fn run(self, context: &Context, body: &mut Value) -> Result<(), Failure> {
        let client = self.client;
        let data = &mut body["data"];
        match self.cause {
            Cause::Extraction(request) => {
                control::read(context, request).await?;
            }
            Cause::Inbound(request) => {
                let received = control::read(context, request).await?;
                if let Some(message) = received.messages.into_iter().next() {
                    data["messageId"] = message.id.into();
                }
            }
            Cause::Sent {
                email,
                recipient,
                event,
            } => {
                let sent = context.caller.send(email, "sending").await?;
                (data["emailId"], data["recipient"]) = (sent.id.clone().into(), recipient.into());
                settle(context, &client).await?;
                if let Some(event) = event {
                    control::read(context, client.simulate_event(&sent.id, &event)).await?;
                }
            }
        }
        settle(context, &client).await
    }
}

impl Preview for Happening {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        match &self.cause {
            Cause::Extraction(request) => request.show(context).await,
            Cause::Inbound(request) => request.show(context).await,
            Cause::Sent { email, .. } => email.show(context).await,
        }
    }
}

async fn settle(context: &Context, client: &Client) -> Result<(), Failure> {
    let request = client.settle(context.settings.timeout.value);
    control::read(context, request).await.map(drop)
}
