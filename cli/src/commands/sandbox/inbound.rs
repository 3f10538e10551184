//! `svc sandbox inbound`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;

use crate::complete::at_file;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Let an email come in; email.received fires
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox inbound --from ada@example.test --to hello@sandbox.test --subject Hi --text Hello
  svc sandbox inbound --raw message.eml

Scope: none; the local server alone")]
pub struct Inbound {
    /// Sender
    #[arg(long, value_name = "ADDRESS", required_unless_present = "raw")]
    from: Option<String>,
    /// Recipient, in a verified domain
    #[arg(long, value_name = "ADDRESS", required_unless_present = "raw")]
    to: Option<String>,
    /// Subject
    #[arg(long, value_name = "TEXT", required_unless_present = "raw")]
    subject: Option<String>,
    /// Plain-text part: the text itself, @file, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    /// HTML part: the text itself, @file, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// A whole RFC 5322 message: a file, or - for standard input
    #[arg(long, value_name = "PATH|-", conflicts_with_all = ["from", "to", "subject", "text", "html"], value_hint = ValueHint::FilePath)]
    raw: Option<PathBuf>,
    /// Where it comes from, for SPF to judge; the verdict is `none` without it
    #[arg(long, value_name = "ADDR")]
    ip: Option<IpAddr>,
    /// The name that the sending host gives
    #[arg(long, value_name = "HOST", requires = "ip")]
    helo: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Inbound {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::post("/_sandbox/inbound");
        let ip = self.ip.map(|ip| ip.to_string());
        let request = match &self.raw {
            Some(path) => request
                .query("organization", self.organization.as_deref())
                .query("ip", ip.as_deref())
                .query("helo", self.helo.as_deref())
                .message(context.inputs.bytes(&context.out, "--raw", path)?),
            None => {
                let read = |option, value: &Option<String>| {
                    value
                        .as_deref()
                        .map(|v| context.inputs.text(&context.out, option, v))
                        .transpose()
                };
                request.body(control::without_nulls(json!({
                    "organization": self.organization,
                    "from": self.from,
                    "to": self.to,
                    "subject": self.subject,
                    "text": read("--text", &self.text)?,
                    "html": read("--html", &self.html)?,
                    "ip": ip,
                    "helo": self.helo,
                })))
            }
        };
        control::done(context, request, "the email came in").await
    }
}
