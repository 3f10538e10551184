//! The `svc sandbox messages wait` command.

use clap::Args;

use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::times;

/// Wait for a message that matches the filters
///
/// A message that was already delivered matches at once. --timeout bounds the wait [default: 30s].
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox messages wait --to ada@example.test --timeout 10s --jq .subject

Scope: none (local server)")]
pub struct Wait {
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
    #[command(flatten)]
    organization: OfOrganization,
}

impl Wait {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let after = times::after(context, self.after.as_deref()).await?;
        let client = self.organization.client(context).await?;
        let mut request = client.messages().wait().timeout(context.settings.timeout.value);
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
        let shown = control::show(context, request.into_request(), super::VIEW).await;
        shown.map_err(|mut failure| {
            if failure.details().status == Some(408) {
                let details = failure.details_mut();
                // The service did not reject anything: it says what is in the mailbox.
                let start = details.message.find("no matching message").unwrap_or(0);
                details.message.drain(..start);
                details.hint =
                    Some(format!("list all messages: {}", context.svc("sandbox messages list")));
            }
            failure
        })
    }
}
