//! The `svc sandbox reset` command.

use clap::Args;

use crate::confirm::confirm;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Delete all data, or the data of one organization
///
/// The seeded organization, keys and domain are created again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox reset --yes

Scope: none (local server)")]
pub struct Reset {
    /// Organization to reset, by name or id [default: all]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Reset {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let what = match &self.organization {
            Some(name) => format!("the data of organization {name}"),
            None => "all data of the sandbox".to_owned(),
        };
        confirm(context, &format!("Delete {what}?")).await?;
        let client = control::client(context, None).await?;
        let request = match self.organization {
            Some(organization) => client.reset_organization(organization),
            None => client.reset(),
        };
        control::done(context, request, &format!("deleted {what} and created the seed data again"))
            .await
    }
}
