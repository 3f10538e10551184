//! The `svc sandbox requests list` command.

use clap::Args;
use svc_sdk::Operation;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Given as _};
use crate::failure::Failure;
use crate::times;

/// List the newest requests, newest first
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox requests list --status 4xx
  svc sandbox requests list --operation emails.send --jq .[0].requestBody.text

Scope: none (local server)")]
pub struct List {
    /// Filter by operation, such as emails.send
    #[arg(long, value_name = "OPERATION", value_parser = operation, add = Values::Operation.candidates())]
    operation: Option<Operation>,
    /// Filter by status, such as 202, or by class, such as 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Filter by key id
    #[arg(long, value_name = "ID", add = Values::SandboxKey.candidates())]
    key_id: Option<String>,
    /// Begun after this time, such as 10m or 2026-12-01
    ///
    /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    after: Option<String>,
    /// Requests per page, 1 to 100 [default: 20]
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
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = || {
            let list = client.requests().list();
            list.given(self.operation, |list, operation| list.operation(operation))
                .given(self.status.as_ref(), |list, status| list.status(status))
                .given(self.key_id.as_ref(), |list, key| list.key(key))
                .given(after.as_ref(), |list, time| list.after(time))
                .given(self.limit, |list, limit| list.limit(limit))
        };
        control::pages(context, request, self.all, super::VIEW, "no requests").await
    }
}

fn operation(text: &str) -> Result<Operation, &'static str> {
    // A name that both services have is that of the email service.
    let mut all = Operation::ALL.iter().copied().rev();
    all.find(|operation| operation.name() == text || operation.to_string() == text)
        .ok_or("is not an operation, such as emails.send")
}
