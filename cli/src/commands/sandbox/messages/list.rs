//! The `svc sandbox messages list` command.

use clap::Args;

use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::times;

/// List the delivered messages, newest first
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox messages list --to ada@example.test
  svc sandbox messages list --all -o ndjson

Scope: none (local server)")]
pub struct List {
    /// Filter by recipient
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Filter by sender
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Filter by text in the subject
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Received after this time, such as 10m or 2026-12-01
    ///
    /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    after: Option<String>,
    /// Messages per page, 1 to 100 [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Fetch every page
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    organization: OfOrganization,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let after = times::after(context, self.after.as_deref()).await?;
        let client = self.organization.client(context).await?;
        let request = || {
            let mut request = client.messages().list();
            if let Some(to) = &self.to {
                request = request.to(to);
            }
            if let Some(from) = &self.from {
                request = request.from(from);
            }
            if let Some(subject) = &self.subject {
                request = request.subject(subject);
            }
            if let Some(after) = &after {
                request = request.after(after);
            }
            match self.limit {
                Some(limit) => request.limit(limit),
                None => request,
            }
        };
        control::pages(context, request, self.all, super::VIEW, "no messages").await
    }
}
