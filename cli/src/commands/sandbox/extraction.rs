//! `svc sandbox extraction`.

use clap::Args;
use serde_json::{Value, json};

use crate::complete::at_file;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::input::json_problem;

/// Complete or fail an extraction; deliveries fire
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox extraction completed --data '{\"total\": 12}'
  svc sandbox extraction failed

Scope: none; the local server alone")]
pub struct Extraction {
    /// How the extraction ends
    #[arg(value_parser = ["completed", "failed"])]
    outcome: String,
    /// The delivery's data as JSON: the text itself, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", add = at_file())]
    data: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Extraction {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let data = self
            .data
            .map(|data| {
                let text = context.inputs.text(&context.out, "--data", &data)?;
                serde_json::from_str::<Value>(&text)
                    .map_err(|error| Failure::input(format!("--data: {}", json_problem(&error))))
            })
            .transpose()?;
        let body = json!({
            "organization": self.organization,
            "event": format!("extraction.{}", self.outcome),
            "data": data,
        });
        let request = Request::post("/_sandbox/extractions").body(control::without_nulls(body));
        control::done(context, request, &format!("an extraction {}", self.outcome)).await
    }
}
