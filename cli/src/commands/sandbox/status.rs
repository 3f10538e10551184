//! The `svc sandbox status` command.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, Show, View, to_value};
use crate::sandbox::Sandbox;

const VIEW: View = View(&[
    Column::new("STATUS", "/status", Show::Status),
    Column::text("HTTP", "/addresses/http"),
    Column::text("DNS", "/addresses/dns"),
    Column::text("SMTP", "/addresses/smtp"),
    Column::new("CLOCK", "/now", Show::Time),
    Column::text("VERSION", "/version"),
    Column::text("DATA", "/data"),
]);

/// Show whether the local server is running, and where
///
/// Finds the server of the data directory. A server that was started with --in-memory has none.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox status
  svc sandbox status --jq .addresses.http

Scope: none (local server)")]
pub struct Status {}

impl Status {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let dir = &context.settings.sandbox_dir;
        if Sandbox::running_url(dir).is_none() && !context.settings.dry_run {
            let value = json!({"status": "not running", "data": dir});
            context.out.one(&value, VIEW)?;
            context.out.note(&format!(
                "no server uses {}; one that was started with --in-memory or another --data is not \
                 found, but responds at its own address",
                dir.display()
            ));
            context.out.hint("start one: svc sandbox serve");
            return Ok(());
        }
        let client = control::client(context, None).await?;
        let Some(health) = control::send(context, client.health()).await? else { return Ok(()) };
        let mut health = to_value(&health);
        health["data"] = json!(dir);
        context.out.one(&health, VIEW)
    }
}
