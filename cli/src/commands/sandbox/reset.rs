//! `svc sandbox reset`.

use clap::Args;
use serde_json::json;

use crate::confirm::confirm;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Remove everything, or one organization; seeds are put back
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox reset --yes

Scope: none; the local server alone")]
pub struct Reset {
    /// The organization to reset; the whole server without it
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Reset {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let what = match &self.organization {
            Some(name) => format!("organization {name}"),
            None => "everything in the sandbox".to_owned(),
        };
        confirm(context, &format!("Remove {what}?")).await?;
        let body = json!({"organization": self.organization});
        let request = Request::post("/_sandbox/reset").body(control::without_nulls(body));
        control::done(context, request, &format!("removed {what}; the seeds are put back")).await
    }
}
