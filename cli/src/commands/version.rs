//! The `svc version` command.

use clap::Args;
use serde_json::json;

use crate::app;
use crate::context::Context;
use crate::failure::Failure;

/// Print the version
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc version
  svc version --json

Scope: none (works offline)")]
pub struct Version {}

impl Version {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        context.out.document(app::VERSION, || json!({"version": env!("CARGO_PKG_VERSION")}))
    }
}
