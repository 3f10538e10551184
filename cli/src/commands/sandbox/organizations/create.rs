//! `svc sandbox organizations create`.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Create an organization with keys that have all scopes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox organizations create --name Test --jq .email_key

Scope: none; the local server alone")]
pub struct Create {
    /// What it is called
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Its balance, in cents
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    balance_cents: Option<i64>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let body = json!({"name": self.name, "balance_cents": self.balance_cents});
        let request = Request::post("/_sandbox/organizations").body(control::without_nulls(body));
        control::show(context, request, super::VIEW).await
    }
}
