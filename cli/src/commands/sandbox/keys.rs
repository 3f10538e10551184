//! The `svc sandbox keys` commands: API keys of the sandbox.

use clap::Subcommand;
use svc_reference_server::client::{Key, KeyMode, NewKey};
use svc_sdk::Service;

use crate::complete::Values;
use crate::context::{Context, Deleted};
use crate::control::{self, changes, reads, removes};
use crate::failure::Failure;
use crate::input::choice;
use crate::output::{Column, View};
use crate::output_schema::of;

/// Table columns of a key.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SERVICE", "/service"),
    Column::prose("SCOPE", "/scopes|/scope"),
    Column::text("MODE", "/mode").droppable(),
    Column::id("KEY", "/key"),
    Column::id("BEGINS WITH", "/hint").droppable(),
    Column::time("CREATED", "/createdAt").droppable(),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create an API key; it is shown only once
    #[command(
        override_usage = "svc sandbox keys create [OPTIONS] --service <email|extraction>\n                               --scope <SCOPE>"
    )]
    #[command(add = changes(of::<Key>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox keys create --service email --scope emails:send \\
      --scope emails:read
  svc sandbox keys create --service extraction --scope extract_only --mode test")]
    Create {
        /// Service of the key
        #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
        service: Service,
        /// Scope; repeatable for the email service
        #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', add = Values::Scope.candidates())]
        scope: Vec<String>,
        /// Mode of an extraction key [default: test]
        #[arg(long, value_parser = choice::one_of::<KeyMode>(["live", "test"]))]
        mode: Option<KeyMode>,
    },
    /// List all API keys, masked
    #[command(add = reads(of::<Vec<Key>>).of_organization())]
    List,
    /// Revoke an API key
    #[command(add = removes(of::<Deleted>))]
    #[command(after_long_help = "svc sandbox keys delete key_019a --yes")]
    Delete {
        /// Key id
        #[arg(add = Values::SandboxKey.candidates())]
        id: String,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create {
                service,
                scope,
                mode,
            } => {
                let key = match service {
                    Service::Email => {
                        if mode.is_some() {
                            return Err(Failure::usage(
                                "--mode applies only to keys of the extraction service",
                            ));
                        }
                        NewKey::email(&scope)
                    }
                    _ => {
                        let [scope] = scope.as_slice() else {
                            return Err(Failure::usage(
                                "a key of the extraction service has exactly one scope: full or extract_only",
                            ));
                        };
                        NewKey {
                            mode,
                            ..NewKey::extraction(scope)
                        }
                    }
                };
                let client = control::client(context).await?;
                control::show(context, VIEW, client.create_key(&key)).await
            }
            Self::List => {
                let client = control::client(context).await?;
                control::list(context, VIEW, "no keys", client.keys()).await
            }
            Self::Delete { id } => {
                let request = control::client(context).await?.revoke_key(&id);
                control::delete(context, ("Revoke", "key"), &id, request).await
            }
        }
    }
}
