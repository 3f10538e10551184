//! `svc sandbox keys create`.

use clap::Args;
use serde_json::json;

use crate::commands::verify::ServiceName;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Create a key; it is shown only here
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox keys create --service email --scope emails:send --scope emails:read
  svc sandbox keys create --service extraction --scope extract_only --mode test

Scope: none; the local server alone")]
pub struct Create {
    /// The service that the key is for
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: ServiceName,
    /// A scope, repeatable for the email service
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', add = Values::Scope.candidates())]
    scope: Vec<String>,
    /// The mode of an extraction key
    #[arg(long, value_parser = ["live", "test"])]
    mode: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let body = match self.service {
            ServiceName::Email => {
                if self.mode.is_some() {
                    return Err(Failure::usage("--mode is for keys of the extraction service"));
                }
                json!({"organization": self.organization, "service": "email", "scopes": self.scope})
            }
            ServiceName::Extraction => {
                let [scope] = self.scope.as_slice() else {
                    return Err(Failure::usage(
                        "a key of the extraction service has one scope: full or extract_only",
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
