//! The `svc sandbox deliveries get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Show a delivery and its attempts
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries get 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e --json

Scope: none (local server)")]
pub struct Get {
    /// Delivery id
    #[arg(add = Values::Delivery.candidates())]
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        control::show(context, client.deliveries().get(&self.id), super::VIEW).await
    }
}
