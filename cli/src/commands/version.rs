//! The `svc version` command.

use std::env::consts;

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
  svc version
  svc version --json")]
pub struct Version {}

impl Version {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let info = VersionInfo {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("SVC_COMMIT"),
            target: format!("{}-{}", consts::ARCH, consts::OS),
        };
        context.out.document(LINE, &info)
    }
}

#[derive(Serialize, JsonSchema)]
pub struct VersionInfo {
    version: &'static str,
    /// The commit of a release; null if built from source.
    commit: Option<&'static str>,
    /// Such as x86_64-linux.
    target: String,
}
