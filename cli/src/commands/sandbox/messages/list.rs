//! `svc sandbox messages list`.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List the delivered messages, the newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox messages list --to ada@example.test
  svc sandbox messages list --all -o ndjson

Scope: none; the local server alone")]
pub struct List {
    /// Whose mailbox
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Who sent it
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// What the subject holds
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Later than this instant, RFC 3339
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// How many at most on a page
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Every page
    #[arg(long)]
    all: bool,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::get("/_sandbox/messages")
            .query("to", self.to.as_deref())
            .query("from", self.from.as_deref())
            .query("subject", self.subject.as_deref())
            .query("after", self.after.as_deref())
            .query("organization", self.organization.as_deref())
            .query("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        control::pages(context, request, self.all, super::VIEW, "no message").await
    }
}
