//! The `svc sandbox emails list` command.

use clap::Args;
use svc_reference_server::client::EmailStatus;

use crate::commands::emails::VIEW;
use crate::context::Context;
use crate::control::{self, Given as _};
use crate::failure::Failure;
use crate::times;

/// List the accepted emails in every status, newest first
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox emails list --status bounced
  svc sandbox emails list --address ada@example.test --after 10m -o ndjson

Scope: none (local server)")]
pub struct List {
    /// Filter by status
    ///
    /// queued, sending, sent, delivered, bounced, failed, complained or cancelled.
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<EmailStatus>,
    /// Filter by the address of the sender or of a recipient
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Filter by text in the subject
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Filter by a tag, given as NAME or as NAME=VALUE
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Accepted after this time, such as 10m or 2026-12-01
    ///
    /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    after: Option<String>,
    /// Accepted before this time, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    before: Option<String>,
    /// Emails per page, 1 to 100 [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Fetch every page
    #[arg(long)]
    all: bool,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let after = times::after(context, self.after.as_deref()).await?;
        let before = times::past(context, "--before", self.before.as_deref()).await?;
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = || {
            let list = client.emails().list();
            list.given(self.status, |list, status| list.status(status))
                .given(self.address.as_ref(), |list, address| list.address(address))
                .given(self.subject.as_ref(), |list, subject| list.subject(subject))
                .given(self.tag.as_ref(), |list, tag| list.tag(tag))
                .given(after.as_ref(), |list, time| list.after(time))
                .given(before.as_ref(), |list, time| list.before(time))
                .given(self.limit, |list, limit| list.limit(limit))
        };
        control::pages(context, request, self.all, VIEW, "no emails").await
    }
}

fn parse_status(text: &str) -> Result<EmailStatus, &'static str> {
    EmailStatus::parse(text)
        .ok_or("must be queued, sending, sent, delivered, bounced, failed, complained or cancelled")
}
