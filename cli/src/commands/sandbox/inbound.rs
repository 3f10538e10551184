//! The `svc sandbox inbound` command.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;

use crate::complete::at_file;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Simulate an incoming email
///
/// Delivers the event email.received to the webhooks of the recipient's domain.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox inbound --from ada@example.test --to hello@sandbox.test --subject Hi --text Hello
  svc sandbox inbound --raw message.eml

Scope: none (local server)")]
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
    /// IP address of the sending host, for SPF
    ///
    /// Without it the SPF result is `none`.
    #[arg(long, value_name = "ADDR")]
    ip: Option<IpAddr>,
    /// HELO name of the sending host, for SPF
    #[arg(long, value_name = "HOST", requires = "ip")]
    helo: Option<String>,
    /// Organization, by name or id [default: Sandbox]
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
        control::done(context, request, "received the email").await
    }
}
