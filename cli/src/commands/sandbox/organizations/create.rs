//! The `svc sandbox organizations create` command.

use clap::Args;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Create an organization, with keys for both services
///
/// The keys have all scopes and are shown only once.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox organizations create --name Test --jq .email_key

Scope: none (local server)")]
pub struct Create {
    /// Organization name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Balance in cents [default: 0]
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    balance_cents: Option<i64>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        let request = client.organizations().create(self.name.as_deref(), self.balance_cents);
        control::show(context, request, super::VIEW).await
    }
}
