//! The `svc config path` command.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;

/// Print the paths of the configuration, credentials and data
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc config path
  $EDITOR \"$(svc config path --jq .config)\"

Scope: none (works offline)")]
pub struct Path {}

impl Path {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let shown = |path: &std::path::Path| path.display().to_string();
        let value = json!({
            "config": shown(&settings.config_dir.join("config.toml")),
            "credentials": shown(&settings.config_dir.join("credentials.toml")),
            "data": shown(&settings.data_dir),
            "sandbox": shown(&settings.sandbox_dir),
        });
        context.out.one(&value, crate::context::PLAIN)
    }
}
