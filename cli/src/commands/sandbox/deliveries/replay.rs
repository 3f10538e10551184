//! The `svc sandbox deliveries replay` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Send a delivery again
///
/// Makes one attempt with the same event id, signed with the webhook's current secret.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries replay 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e

Scope: none (local server)")]
pub struct Replay {
    /// Delivery id
    #[arg(add = Values::Delivery.candidates())]
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = client.deliveries().replay(&self.id);
        control::done(context, request, &format!("sent delivery {} again", self.id)).await
    }
}
