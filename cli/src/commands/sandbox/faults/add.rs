//! `svc sandbox faults add`.

use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;

use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::input::{duration, pairs};

/// Let the next matching requests fail in a given way
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox faults add --operation 'emails.send' --status 503 --times 2
  svc sandbox faults add --latency 2s
  svc sandbox faults add --drop after

Scope: none; the local server alone")]
pub struct Add {
    /// Which operation; any without it
    #[arg(long, value_name = "OPERATION", add = Values::Operation.candidates())]
    operation: Option<String>,
    /// How many requests
    #[arg(long, value_name = "N")]
    times: Option<u32>,
    /// How many requests to let pass before
    #[arg(long, value_name = "N")]
    skip: Option<u32>,
    /// The status to answer with
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,
    /// The body to answer with, as JSON or text
    #[arg(long, value_name = "TEXT|@FILE|-", add = at_file())]
    body: Option<String>,
    /// A header to answer with, repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
    header: Vec<(String, String)>,
    /// How long to wait before answering
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    latency: Option<Duration>,
    /// When to cut the connection; `after` has processed the request
    #[arg(long, value_parser = ["before", "after", "midway"])]
    drop: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Add {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let answer = self
            .body
            .map(|body| {
                let text = context.inputs.text(&context.out, "--body", &body)?;
                let value = serde_json::from_str::<Value>(&text);
                Ok::<_, Failure>(value.unwrap_or_else(|_| text.into()))
            })
            .transpose()?;
        let headers = pairs::object("--header", self.header)?;
        let body = json!({
            "organization": self.organization,
            "operation": self.operation,
            "times": self.times,
            "skip": self.skip,
            "status": self.status,
            "body": answer,
            "headers": (!headers.is_empty()).then_some(headers),
            "latency": self.latency.map(|latency| format!("{}ms", latency.as_millis())),
            "drop": self.drop,
        });
        let request = Request::post("/_sandbox/faults").body(control::without_nulls(body));
        control::show(context, request, super::VIEW).await
    }
}
