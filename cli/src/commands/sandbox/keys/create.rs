//! The `svc sandbox keys create` command.

use clap::Args;
use svc_reference_server::client::NewKey;

use crate::commands::verify::ServiceName;
use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Create an API key; it is shown only once
#[derive(Args, Debug)]
#[command(
    override_usage = "svc sandbox keys create [OPTIONS] --service <email|extraction>\n                               --scope <SCOPE>"
)]
#[command(after_long_help = "\
Examples:
  svc sandbox keys create --service email --scope emails:send --scope emails:read
  svc sandbox keys create --service extraction --scope extract_only --mode test

Scope: none (local server)")]
pub struct Create {
    /// Service of the key
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: ServiceName,
    /// Scope; repeatable for the email service
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', add = Values::Scope.candidates())]
    scope: Vec<String>,
    /// Mode of an extraction key [default: test]
    #[arg(long, value_parser = ["live", "test"])]
    mode: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
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
        let client = control::client(context, self.organization.as_deref()).await?;
        control::show(context, client.keys().create(&key), super::VIEW).await
    }
}
