//! The `svc sandbox extraction` command.

use clap::Args;
use serde_json::{Map, Value};

use crate::complete::at_file;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::input::exact_json;

/// Simulate a completed or failed extraction
///
/// Webhooks are delivered as they would be for a real extraction.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox extraction completed --data '{\"total\": 12}'
  svc sandbox extraction failed

Scope: none (local server)")]
pub struct Extraction {
    /// Outcome of the extraction
    #[arg(value_parser = ["completed", "failed"])]
    outcome: String,
    /// Event data as JSON: text, @file or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", add = at_file())]
    data: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Extraction {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let data = self
            .data
            .map(|data| {
                let text = context.json_text("--data", &data)?;
                exact_json::<Map<String, Value>>(&text)
                    .map_err(|problem| Failure::input(format!("--data: {problem}")))
            })
            .transpose()?;
        let request = client.extractions().simulate(&format!("extraction.{}", self.outcome), data);
        control::done(context, request, &format!("extraction {}", self.outcome)).await
    }
}
