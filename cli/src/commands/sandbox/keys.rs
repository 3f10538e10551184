//! The `svc sandbox keys` commands: API keys of the local server.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use svc_reference_server::client::{Key, KeyMode, NewKey};

use crate::command_spec::{changes, reads, removes};
use crate::commands::verify::ServiceName;
use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::context::Deleted;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::of;

/// Table columns of a key.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SERVICE", "/service"),
    Column::prose("SCOPES", "/scopes"),
    Column::text("SCOPE", "/scope"),
    Column::text("MODE", "/mode").droppable(),
    Column::id("KEY", "/key"),
    Column::id("BEGINS WITH", "/hint").droppable(),
    Column::new("CREATED", "/createdAt", Show::Time).droppable(),
]);

group! {
    pub enum Command {
        Create(Create),
        List(List),
        Delete(Delete),
    }
}

/// Create an API key; it is shown only once
#[derive(Args, Debug)]
#[command(
    override_usage = "svc sandbox keys create [OPTIONS] --service <email|extraction>\n                               --scope <SCOPE>"
)]
#[command(add = changes(&[], of::<Key>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox keys create --service email --scope emails:send \\
      --scope emails:read
  svc sandbox keys create --service extraction --scope extract_only --mode test")]
pub struct Create {
    /// Service of the key
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: ServiceName,
    /// Scope; repeatable for the email service
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', add = Values::Scope.candidates())]
    scope: Vec<String>,
    /// Mode of an extraction key [default: test]
    #[arg(long, value_parser = PossibleValuesParser::new(["live", "test"]).try_map(|mode| mode.parse::<KeyMode>()))]
    mode: Option<KeyMode>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let key = match self.service {
            ServiceName::Email => {
                if self.mode.is_some() {
                    return Err(Failure::usage(
                        "--mode applies only to keys of the extraction service",
                    ));
                }
                NewKey::email(&self.scope)
            }
            ServiceName::Extraction => {
                let [scope] = self.scope.as_slice() else {
                    return Err(Failure::usage(
                        "a key of the extraction service has exactly one scope: full or extract_only",
                    ));
                };
                let key = NewKey::extraction(scope);
                match self.mode {
                    Some(mode) => key.mode(mode),
                    None => key,
                }
            }
        };
        let client = self.organization.client(context).await?;
        control::show(context, client.keys().create(&key), VIEW).await
    }
}

/// List all API keys, masked
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Vec<Key>>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox keys list")]
pub struct List {
    #[command(flatten)]
    organization: OfOrganization,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::list(context, client.keys().list(), VIEW, "no keys").await
    }
}

/// Revoke an API key
#[derive(Args, Debug)]
#[command(add = removes(&[], of::<Deleted>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox keys delete key_019a --yes")]
pub struct Delete {
    /// Key id
    #[arg(add = Values::SandboxKey.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Revoke key {}?", self.id)).await?;
        let client = control::client(context, None).await?;
        control::deleted(context, client.keys().delete(&self.id), "key", &self.id).await
    }
}
