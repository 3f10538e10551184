//! `svc sandbox keys list`.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List the keys, without secrets
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox keys list

Scope: none; the local server alone")]
pub struct List {
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request =
            Request::get("/_sandbox/keys").query("organization", self.organization.as_deref());
        control::list(context, request, super::VIEW, "no key").await
    }
}
