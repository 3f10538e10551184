//! `svc sandbox messages wait`.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Wait for a message; the first match, at once or when it comes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox messages wait --to ada@example.test --timeout 10s --jq .subject

Scope: none; the local server alone")]
pub struct Wait {
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
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Wait {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let timeout = context.settings.timeout.value;
        let request = Request::get("/_sandbox/messages/wait")
            .query("to", self.to.as_deref())
            .query("from", self.from.as_deref())
            .query("subject", self.subject.as_deref())
            .query("after", self.after.as_deref())
            .query("organization", self.organization.as_deref())
            .query("timeout", Some(&format!("{}ms", timeout.as_millis())));
        control::show(context, request.long_running(), super::VIEW).await.map_err(|mut failure| {
            if failure.details().status == Some(408) {
                let details = failure.details_mut();
                details.message = format!("no message that matches came within {timeout:?}");
                details.hint =
                    Some(format!("see what came: {}", context.svc("sandbox messages list")));
            }
            failure
        })
    }
}
