//! The `svc sandbox keys create` command.

use clap::Args;
use serde_json::json;

use crate::commands::verify::ServiceName;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
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
        let body = match self.service {
            ServiceName::Email => {
                if self.mode.is_some() {
                    return Err(Failure::usage(
                        "--mode applies only to keys of the extraction service",
                    ));
                }
                json!({"organization": self.organization, "service": "email", "scopes": self.scope})
            }
            ServiceName::Extraction => {
                let [scope] = self.scope.as_slice() else {
                    return Err(Failure::usage(
                        "a key of the extraction service has exactly one scope: full or extract_only",
                    ));
                };
                json!({
                    "organization": self.organization,
                    "service": "extraction",
                    "scope": scope,
                    "mode": self.mode,
                })
            }
        };
        let request = Request::post("/_sandbox/keys").body(control::without_nulls(body));
        control::show(context, request, super::VIEW).await
    }
}
