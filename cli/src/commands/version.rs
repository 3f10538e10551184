//! The `svc version` command.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;

/// The line that `svc --version` prints.
pub const LINE: &str = concat!("svc ", env!("CARGO_PKG_VERSION"), "\n");

/// Print the version
#[derive(Args, Debug)]
#[command(add = local(of::<VersionInfo>))]
#[command(after_long_help = "\
Examples:
  svc version
  svc version --json")]
pub struct Version {}

impl Version {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        context.out.document(LINE, &VersionInfo { version: env!("CARGO_PKG_VERSION") })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct VersionInfo {
    version: &'static str,
}
