//! The `svc sandbox requests get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Show a request with the beginning of its bodies
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox requests get req_019a
  svc sandbox requests get req_019a --jq .responseBody.text

Scope: none (local server)")]
pub struct Get {
    /// Request id, which is the X-Request-Id of the response
    #[arg(add = Values::SandboxRequest.candidates())]
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        control::show(context, client.requests().get(&self.id), super::VIEW).await
    }
}
