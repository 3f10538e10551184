//! The `svc sandbox organizations` commands: isolated organizations.

use clap::Subcommand;
use svc_reference_server::client::{NewOrganization, Organization, OrganizationSummary};

use crate::context::Context;
use crate::control::{self, changes, reads};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::of;

/// Table columns of an organization.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::id("EMAIL KEY", "/email_key"),
    Column::id("EXTRACTION KEY", "/extraction_key"),
    Column::cents("BALANCE", "/balance_cents"),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create an organization, with keys for both services
    ///
    /// The keys have all scopes and are shown only once.
    #[command(add = changes(of::<Organization>))]
    #[command(after_long_help = "svc sandbox organizations create --name Test --jq .email_key")]
    Create {
        /// Organization name
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Balance in cents [default: 0]
        #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
        balance_cents: Option<i64>,
    },
    /// List all organizations
    #[command(add = reads(of::<Vec<OrganizationSummary>>))]
    List,
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::Create {
                name,
                balance_cents,
            } => {
                let new = NewOrganization {
                    name,
                    balance_cents,
                    ..NewOrganization::default()
                };
                let request = client.create_organization(&new);
                control::show(context, VIEW, request).await
            }
            Self::List => {
                control::list(context, VIEW, "no organizations", client.organizations()).await
            }
        }
    }
}
